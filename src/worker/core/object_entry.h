// What the agent knows of an object beyond the object table's row: whose it is, where copies are
// and who waits for what. Rows of Objects; an entry lives exactly as long as its row in the table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/task.h"
#include "store/core/slab_space.h"
#include "transfer/core/pull_queue.h"

namespace mobula::internal::worker {

enum class NodeHoldState : unsigned char { none, asked, confirmed };

// Kinds of locations in the list of a home.
enum class Location : unsigned char { replica, kept_result, any };

// An object that is being read back from disk.
struct Restore {
  ObjectId object{};
  Place place;
  bool started = false;
};

struct HoldsAsked {
  NodeId home;
  int count = 0;  // NodeHolds without a reply
};

struct ObjectEntry {
  NodeId home{};
  ProcessId owner{};
  std::uint64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained{};
  std::vector<ObjectId> pinned{};    // those of them that are held, while the bytes are here
  std::optional<Failure> failure{};  // it will not come

  // Everywhere: processes of this node that wait to read it, by which fetch, and what is done
  // about it.
  std::map<ProcessId, std::uint64_t> readers{};
  transfer::PullId pull = 0;
  bool argument = false;             // a call waits for it
  int tries = 0;                     // pulls that failed in a row
  bool waits_for_room = false;       // for the copy that is to be pulled
  std::vector<NodeId> sources{};     // who has it or is getting it, as told last
  std::vector<NodeId> unread{};      // sources of the last pull, if that pull failed
  NodeId asked{};                    // who owes us an ObjectStatus
  std::optional<Time> locate_by{};   // the head is asked who has copies
  std::string lost_cause{};          // why that is so
  std::vector<NodeId> candidates{};  // named by the head, to be asked in turn
  int pins = 0;                      // holds of the agent itself: contained, pulled, read by peers
  // With a pin: who said whose it is, or passed a ref of it on, has died; others may still come.
  std::optional<Time> orphan_until{};
  bool copy_reported = false;        // to the head, as ObjectCopies

  // Where the bytes are here: what keeps them from moving, and whether they can be had elsewhere.
  struct InPlace {
    std::uint64_t fetch = 0;      // by which it has the place; 0: it wrote the bytes
    std::optional<Time> asked{};  // to return it
  };
  std::map<ProcessId, InPlace> in_place{};  // processes that may look at the bytes
  int offers = 0;                           // peers that read here
  std::uint64_t spill = 0;                  // the file to which they are being written
  std::uint64_t restore = 0;                // they are being read back
  std::vector<std::pair<NodeId, std::uint64_t>> pullers{};  // wait until they are: by their pulls
  Time last_use{};
  bool pulled = false;         // a copy of what other nodes have,
  std::set<NodeId> origins{};  // as was told then

  // At home.
  bool claimed = false;            // an owner has said that it exists, or will
  std::optional<Time> claim_by{};  // with a pin, until the claim or the end of patience
  bool exported = false;
  bool is_tensor = false;          // exported: elements that the owner has, and gives itself
  bool owner_released = false;     // exported: the owner waits until nobody holds it
  ActorId entrusted{};             // exported: the job owns the actor whose handles this object counts
  std::set<NodeId> keepers{};      // keep bytes for us, until we release them
  std::set<NodeId> copies{};       // have bytes by holds of their own
  std::set<NodeId> askers{};       // want to know where it is
  std::vector<NodeId> fetchers{};  // have been told, the latest last, and have no copy yet
  std::uint64_t answers = 0;       // of the kind
  std::set<NodeId> unconfirmed{};  // their holds wait for the claim

  // Away from home.
  NodeHoldState node_hold = NodeHoldState::none;
  std::set<ProcessId> hold_waiters{};

  // Where it was made, away from home.
  std::set<ProcessId> sealers{};       // wait for the home to take it
  std::set<ProcessId> found_here{};    // with a pin each: told that the bytes are here, to seal them
  bool writer_borrows = false;         // the writer holds it also for itself
};

}  // namespace mobula::internal::worker
