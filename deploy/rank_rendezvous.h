// Rendezvous of the ranks of one launch in a shared directory, for example on NFS. The first rank
// writes the head's address, its key, and the end of the launch; each other rank writes its
// progress. Files are written completely or not at all, with mode 0600 in a directory of mode 0700.
// Content that another user could have written is rejected.
// Thread: owner. Does file I/O and never waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/process_identity.h"

namespace mobula::internal::deploy {

// Note of the first rank.
struct RunNote {
  std::string token{};  // id of this launch, because the directory of an earlier one may remain
  std::string address{};
  bool over = false;
  int code = 0;  // exit code of the program, when over

  friend bool operator==(const RunNote&, const RunNote&) = default;
};

// Note of another rank.
struct RankNote {
  std::string token{};  // token of the launch that it found
  std::string host{};
  std::string
      // `waiting`, `joined`, `beside` (another rank of its machine joins), `failed`, `left`
      state{};
  std::string why{};  // when failed
  bool gone = false;  // all of its processes have exited, and it no longer reads the directory
};

// Claim of a process on a rank. The counter grows while the process lives.
struct RankClaim {
  std::string self{};  // unique to one process
  std::uint64_t beat = 0;
  ProcessIdentity process{};   // lets processes on the same machine detect its exit immediately
  std::string processes_of{};  // namespace of the pid, see own_processes()

  friend bool operator==(const RankClaim&, const RankClaim&) = default;
};

// Identifies the pid namespace: containers on one machine do not see the processes of each other.
std::string own_processes();
// True if the process was in this namespace and has exited; false if that is not visible here.
bool is_gone(const RankClaim& note);

class RankRendezvous {
 public:
  // Creates the directory unless it exists. permission_denied if other users could write to it.
  static Result<RankRendezvous> at(std::string directory);

  const std::string& directory() const { return directory_; }

  // Claims `rank` until release_rank(), for launches that might share a directory. Returns false
  // while another process, possibly a killed one, has the claim. A claim may be removed with
  // release_rank() if is_gone() is true or its counter has stopped. That needs its `self`.
  bool claim_rank(int rank, const RankClaim& own) const;
  std::optional<RankClaim> claim_of(int rank) const;
  // Returns false once another process has the claim.
  bool beat(int rank, RankClaim& own) const;
  // Removes the claim if it belongs to `self`.
  void release_rank(int rank, const std::string& self) const;

  // First rank: removes the notes of an earlier launch.
  void clear() const;
  Result<void> say(const RunNote& note) const;
  Result<void> leave_key(const std::string& text) const;
  std::optional<RankNote> of_rank(int rank) const;
  // Removes the directory, or all but the note if ranks may still read it.
  void close(bool all_have_left) const;

  // Functions of the other ranks.
  std::optional<RunNote> read_note() const;
  Result<std::string> key() const;
  Result<void> say(int rank, const RankNote& note) const;

 private:
  explicit RankRendezvous(std::string directory) : directory_(std::move(directory)) {}
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string directory_;
};

}  // namespace mobula::internal::deploy
