// What one process wants of tensors that others have, what it has itself, and what the exchange of them asks
// of its owner. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/region_messages.h"

namespace mobula::internal::transfer {

using RegionPullId = std::uint64_t;  // 0: none
using TransferId = std::uint64_t;    // of a receiver; never used again
using OperationId = std::uint64_t;   // one act of a transport in this process

struct RegionOptions {
  std::uint64_t max_receive_bytes = std::uint64_t{1} << 30;  // reserved for what is on its way here
  std::size_t max_waiting = 65536;       // wishes that have no room yet; beyond it they are refused
  std::size_t max_serves = 32;           // that have the bytes exported, or move them
  std::size_t max_serves_of_object = 2;  // of a large one: others are sent to those who have copies, or wait
  // The same, by paths that share what this machine sends. One is best where readers keep copies; where none does, one
  // that is slow would keep all others waiting.
  std::size_t max_serves_over_network = 2;
  std::size_t max_serves_of_peer = 8;    // of one reader, whatever it does; others of it wait
  std::size_t max_waiting_of_peer = 16384;  // of one reader; beyond it they are refused
  Duration serve_within = 10s;           // a reader that takes longer goes on, but does not keep others from a place
  std::uint64_t redirect_from_bytes = std::uint64_t{1} << 20;  // what is large
  std::size_t max_serves_waiting = 524288;  // as many readers as connect, each with its parts
  std::uint64_t chunk_bytes = std::uint64_t{64} << 20;  // of two-sided paths
  std::uint64_t part_bytes = std::uint64_t{8} << 20;    // what large tensors are cut by (region_parts.h); 0: they are not
  std::size_t max_parts_asked = 128;    // of one holder, that this process has asked for at a time; others are in line here
  std::size_t max_serves_of_part = 1;   // others are sent to who has a copy, or wait until there is one
  std::size_t max_parts_of_peer = 3;    // of max_serves_of_peer: few at a time are there sooner, and given on
  Duration serve_part_within = 1s;      // as serve_within, of a part
  std::size_t max_copies_known = 64;    // of a part; further ones are not sent to
  Duration keeper_within = 2s;          // of who keeps a copy: to be reached, and to answer
  Duration keeper_pause = 30s;          // nobody is followed to one that was not reached, or said nothing
  std::size_t max_keepers_shunned = 1024;
  Duration answer_within = 10s;    // of a holder: it is asked once more, and given up after that
  Duration step_within = 10s;      // from having a turn to the other side's
  Duration progress_within = 10s;  // of a transport that says nothing
  Duration lookup_pause = 100ms;   // between two questions for holders, doubled
  int lookups = 4;                 // in vain
  int failures_per_path = 2;       // at one holder
  Duration part_after = 60s;       // what has carried nothing for so long is closed until it is wanted again; 0: never
  std::size_t many_ties = 256;     // with more holders than that those connections go sooner:
  Duration part_after_of_many = 10s;
};

// Where a path may be tried: by whom, for which device of this process.
struct RegionWish {
  ObjectId object;
  std::uint64_t size_bytes = 0;
  std::vector<ProcessId> holders{};    // likely ones, best first; none: asked for
  std::vector<DirectPath> paths{};     // to be tried in this order at each holder
  std::uint32_t lane = 0;              // the device of this process that receives, for two-sided paths
  std::uint32_t part = 0;              // that is wanted of it; 0: all. By one-sided paths
  bool keeps = false;                  // others may have the part from here, until `retire`
};

// ---- commands ----------------------------------------------------------------------------------

struct SendRegions {
  ProcessId to;
  RegionMessage message;
};
// Make the bytes reachable for `peer` by `path`; tell `exported`. After a failure or `Unexport` they are not.
struct Export {
  OperationId operation = 0;
  ObjectId object;
  DirectPath path = DirectPath::shm;
  ProcessId peer;
  std::uint32_t peer_lane = 0;  // the receiver's device
  std::uint32_t part = 0;       // of it; 0: all
};
// Nobody may reach them by that export any more; tell `ended` when that is so.
struct Unexport {
  OperationId operation = 0;
};
// One-sided: bring the bytes; tell `ended`, and `progressed` meanwhile.
struct Fetch {
  OperationId operation = 0;
  RegionPullId pull = 0;
  DirectPath path = DirectPath::shm;
  ProcessId holder;
  std::string ticket;
  std::uint32_t peer_lane = 0;  // the holder's device
};
// Two-sided: issue this side's half now; the other side does, too. Tell `ended`.
struct Issue {
  OperationId operation = 0;
  RegionPullId pull = 0;  // of the receiving side; 0: this side sends
  ObjectId object;
  DirectPath path = DirectPath::nccl;
  ProcessId peer;
  std::uint64_t epoch = 0;  // of the channel
  std::uint32_t lane = 0, peer_lane = 0;
  bool opens = false;       // the channel; else a chunk:
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};
// Stop it; `ended` still follows, when it is quiet: no byte will be written or read for it.
struct Cancel {
  OperationId operation = 0;
};
// Everything of a two-sided channel below `epoch` is to be taken down.
struct DropChannel {
  ProcessId peer;
  DirectPath path = DirectPath::nccl;
  std::uint32_t lane = 0, peer_lane = 0;
  std::uint64_t epoch = 0;
};
// Nobody can reach the bytes, and nobody wants them: they may be freed.
struct FreeRegions {
  ObjectId object;
};
// Write them into the node's object store; tell `stored`.
struct StoreRegions {
  ObjectId object;
};
// Who has it? Tell `located`.
struct LookUp {
  ObjectId object;
};
// Connect to one that is said to keep a copy, and say by which paths it may be asked: tell `reached`.
struct Reach {
  RegionPullId pull = 0;
  ProcessId keeper;
};
// Nothing has gone from there for a while, and the holder knows: close what carries it from there to here, which its
// side takes for no end of anything. `again`: something is wanted by now, and asked for next.
struct Part {
  ProcessId holder;
  bool again = false;
};
struct RegionsHere {};   // in the memory that the last operation wrote
struct RegionsInStore {};  // not in any process any more
using RegionOutcome = std::variant<RegionsHere, RegionsInStore, Failure>;
// What became of one attempt, or why there was none.
struct RegionAttempt {
  ProcessId holder;
  DirectPath path = DirectPath::shm;
  std::string refusal;  // empty: it was this way
};
struct PullEnded {
  RegionPullId pull = 0;
  RegionOutcome outcome;
  std::vector<RegionAttempt> attempts;
  Duration queued{};  // until it had room
  Duration moved{};   // from the last operation's beginning to its end
};
// What was claimed has the turn of its device, until it is given back.
struct TurnTaken {
  std::uint64_t claim = 0;
};
using RegionCommand = std::variant<SendRegions, Export, Unexport, Fetch, Issue, Cancel, DropChannel, FreeRegions,
                                   StoreRegions, LookUp, Reach, Part, PullEnded, TurnTaken>;

// Answer to LookUp.
struct RegionsLocated {
  std::vector<ProcessId> holders;  // best first
  bool in_store = false;
  bool lost = false;  // for good
};

}  // namespace mobula::internal::transfer
