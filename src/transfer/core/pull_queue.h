// Brings objects and program files from other nodes: which pulls run, from which node each is
// tried, what happens when one fails. Pure; owned by one core; not thread-safe. It knows ids and
// sizes; bytes, places and connections are its owner's.
//
// Several wishes for one key share one pull. At most `max_pulls` run at once and at most
// `max_bytes` are in flight (a larger single one runs alone); the others wait in order, up to
// `max_waiting`, and beyond that a wish is refused. Every pull ends with exactly one Done: with the
// bytes, or with the failure of the last node when all were tried. A node that says it is busy is
// tried again.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/id.h"
#include "base/result.h"
#include "base/table.h"
#include "base/time.h"
#include "protocol/peer_control.h"

namespace mobula::internal::transfer {

using PullId = std::uint64_t;  // 0: none

// An object, or a program file by the hash of its bytes; the other one is empty.
struct PullKey {
  ObjectId object;
  Hash128 file;
  friend auto operator<=>(const PullKey&, const PullKey&) = default;
};

struct PullOptions {
  std::size_t max_pulls = 16;
  std::uint64_t max_bytes = std::uint64_t{512} << 20;
  std::size_t max_waiting = 65536;
  Duration answer_within = 10s;    // to a PullRequest
  Duration transfer_within = 30s;  // plus its size at the least speed
  std::uint64_t least_bytes_per_second = std::uint64_t{4} << 20;
  Duration busy_pause = 100ms;
  int busy_rounds = 100;
};

// Ask `from` for leave to read (PullRequest); tell `answered`.
struct AskSource {
  PullId pull = 0;
  NodeId from;
  PullKey key;
  friend bool operator==(const AskSource&, const AskSource&) = default;
};
// Read the bytes; tell `finished`.
struct Transfer {
  PullId pull = 0;
  NodeId from;
  PullKey key;
  std::uint64_t size_bytes = 0;
  std::string token;
  std::string secret;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};
// Cut the running transfer short; `finished` still follows.
struct CutTransfer {
  PullId pull = 0;
  friend bool operator==(const CutTransfer&, const CutTransfer&) = default;
};
// The pull is over and its number is forgotten; nobody writes any more.
struct PullDone {
  PullId pull = 0;
  PullKey key;
  NodeId from;  // without failure: who had it
  std::optional<Failure> failure;
  friend bool operator==(const PullDone&, const PullDone&) = default;
};
using PullCommand = std::variant<AskSource, Transfer, CutTransfer, PullDone>;

class PullQueue {
 public:
  explicit PullQueue(PullOptions options = {}) : options_(options) {}

  // Begins, or joins, the pull of `key`; `sources` are tried in order. Fails with
  // resource_exhausted if too many wait, invalid_argument without a source.
  Result<PullId> want(Time now, PullKey key, std::uint64_t size_bytes,
                      const std::vector<NodeId>& sources, std::vector<PullCommand>& out);
  // One wish less. The last one ends the pull as cancelled, when its transfer has ended.
  void unwant(Time now, PullId pull, std::vector<PullCommand>& out);
  // A late answer, of a node that is not asked any more, changes nothing.
  void answered(Time now, NodeId from, const PullReady& ready, std::vector<PullCommand>& out);
  void finished(Time now, PullId pull, std::optional<Failure> failure,
                std::vector<PullCommand>& out);
  // It is not tried any more, and a transfer from it is cut.
  void node_dead(Time now, NodeId node, std::vector<PullCommand>& out);
  void tick(Time now, std::vector<PullCommand>& out);
  std::optional<Time> next_deadline() const;

  std::size_t size() const { return pulls_.size(); }
  std::size_t running() const { return running_; }
  std::uint64_t bytes_in_flight() const { return bytes_in_flight_; }

 private:
  enum class Stage : unsigned char { waiting, asking, pausing, transferring };
  struct Pull {
    PullKey key{};
    std::uint64_t size_bytes = 0;
    std::vector<NodeId> sources{};  // still to be tried; the front is next
    std::vector<NodeId> busy{};     // to be tried again after a pause
    NodeId from{};                  // asked or read now
    Stage stage = Stage::waiting;
    int wishes = 1;
    int rounds = 0;
    bool cut = false;
    std::optional<Failure> failure{};  // of the last node tried
    std::optional<Time> deadline{};
  };

  void admit(Time now, std::vector<PullCommand>& out);
  void try_next(Time now, PullId id, std::vector<PullCommand>& out);
  void source_failed(Time now, PullId id, Failure why, bool busy, std::vector<PullCommand>& out);
  void end(Time now, PullId id, std::optional<Failure> failure, std::vector<PullCommand>& out);
  void cut(Pull& pull, PullId id, std::vector<PullCommand>& out);

  PullOptions options_;
  Table<PullId, Pull> pulls_;  // in order of arrival
  std::size_t running_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  PullId next_ = 1;
};

}  // namespace mobula::internal::transfer
