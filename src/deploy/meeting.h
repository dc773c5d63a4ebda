// Where the ranks of one launch find each other: a folder that all of them see, such as one on NFS.
// The first rank says there where the cluster's head is and leaves its key, and when all is over;
// each other rank says how far it has come. Every file is written whole or not at all and is 0600,
// the folder is 0700; what somebody else could have written is refused. Does file I/O, waits for
// nothing; any thread, one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/process_mark.h"

namespace mobula::internal::deploy {

// What the first rank says.
struct RunNote {
  std::string token{};  // of this launch; another one's folder may still be there
  std::string address{};
  bool over = false;
  int code = 0;  // the exit code of the program, when over

  friend bool operator==(const RunNote&, const RunNote&) = default;
};

// What another rank says.
struct RankNote {
  std::string token{};  // of the launch that it has found
  std::string host{};
  std::string
      state{};  // "waiting", "joined", "beside" (another rank of its machine joins), "failed", "left"
  std::string why{};  // when failed
  bool gone = false;  // nothing of it runs any more, and it looks into the folder no more
};

// Who speaks as a rank, and that it still does: the number grows for as long as it lives.
struct PlaceNote {
  std::string self{};  // of one process, and of no other
  std::uint64_t beat = 0;
  ProcessMark process{};         // by which those beside it see at once that it has ended
  std::string processes_of{};  // whose numbers those are, see own_processes()

  friend bool operator==(const PlaceNote&, const PlaceNote&) = default;
};

// Whose processes this one sees: two containers of a machine do not see each other's.
std::string own_processes();
// That it was of those, and has ended; false where that cannot be seen from here.
bool is_gone(const PlaceNote& note);

class Meeting {
 public:
  // Makes the folder unless it is there. permission_denied where others could write into it.
  static Result<Meeting> at(std::string folder);

  const std::string& folder() const { return folder_; }

  // Of every rank, where two launches might use one folder: nobody else speaks as `rank` until `self` has
  // left. False while the place is somebody's, perhaps of one that has been killed: who is_gone(), or whose beats
  // stand still, can be put out, and `self` must be known before.
  bool take_place(int rank, const PlaceNote& own) const;
  std::optional<PlaceNote> place_of(int rank) const;
  // False once the place is another's.
  bool beat(int rank, PlaceNote& own) const;
  // Removes it, if it is `self`'s.
  void leave_place(int rank, const std::string& self) const;

  // Of the first rank: removes what an earlier launch has left.
  void clear() const;
  Result<void> say(const RunNote& note) const;
  Result<void> leave_key(const std::string& text) const;
  std::optional<RankNote> of_rank(int rank) const;
  // Removes the folder; with ranks that may still look, all but the note.
  void close(bool all_have_left) const;

  // Of the others.
  std::optional<RunNote> look() const;
  Result<std::string> key() const;
  Result<void> say(int rank, const RankNote& note) const;

 private:
  explicit Meeting(std::string folder) : folder_(std::move(folder)) {}
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

}  // namespace mobula::internal::deploy
