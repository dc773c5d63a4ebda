// The agent's state of an object beyond the row of the object table: owner, locations, readers, and
// waiting peers. A row of Objects; it exists exactly as long as the object's row in the table.
// Thread: owner (Objects). Units: bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/model/task.h"
#include "base/result.h"
#include "base/time.h"
#include "store/core/slab_space.h"
#include "worker/core/transfers/pull_queue.h"

namespace mobula::internal::worker {

enum class NodeHoldState : unsigned char { none, asked, confirmed };

// Kinds of locations in the list of a home.
enum class Location : unsigned char { replica, kept_result, any };

// An object that is being restored from disk.
struct Restore {
  ObjectId object{};
  Place place;
  bool started = false;
};

struct HoldsAsked {
  NodeId home;
  int count = 0;  // NodeHoldRequest requests without a reply
};

struct ObjectEntry {
  NodeId home{};
  ProcessId owner{};
  std::uint64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained{};
  std::vector<ObjectId> pinned{};    // refs in `contained` that are held while the bytes are here
  std::optional<Failure> failure{};  // recorded failure: the object will not arrive

  // Everywhere: processes of this node that wait to read the object, by their fetch number, and the
  // state of obtaining it.
  std::map<ProcessId, std::uint64_t> readers{};
  transfer::PullId pull = 0;
  bool argument = false;             // a call waits for it
  int tries = 0;                     // failed pulls in a row
  bool waits_for_room = false;       // waits for memory for the pulled replica
  std::vector<NodeId> sources{};     // holders and fetching nodes, as last reported
  std::vector<NodeId> unread{};      // sources of the last pull, if that pull failed
  NodeId asked{};                    // node that owes an ObjectStatusReply
  std::optional<Time> locate_by{};   // deadline of the head's reply with replica locations
  std::string lost_cause{};          // cause of the loss
  std::vector<NodeId> candidates{};  // nodes named by the head, queried in turn
  int pins = 0;                      // holds of the agent: contained refs, pulls, reads by peers
  // With a pin: the process that stated the owner, or passed on a ref, has died. Registrations of
  // new holders may still arrive until then.
  std::optional<Time> orphan_until{};
  bool copy_reported = false;  // reported to the head as ObjectCopies

  // Bytes on this node: uses that prevent a move, and the existence of replicas elsewhere.
  struct InPlace {
    std::uint64_t fetch = 0;      // fetch that returned the location; 0: writer of the bytes
    std::optional<Time> asked{};  // time of the request to return it
  };
  std::map<ProcessId, InPlace> in_place{};  // processes that may have the bytes mapped
  int offers = 0;                           // peers that read here
  std::uint64_t spill = 0;                  // file that is being written; 0: none
  std::uint64_t restore = 0;                // restore in progress; 0: none
  std::vector<std::pair<NodeId, std::uint64_t>> pullers{};  // await the restore: (node, pull)
  Time last_use{};
  bool pulled = false;         // a replica of bytes on other nodes
  std::set<NodeId> origins{};  // locations reported at the pull

  // At home.
  bool claimed = false;            // an owner has claimed the object
  std::optional<Time> claim_by{};  // with a pin: deadline of the claim
  bool exported = false;
  bool is_tensor = false;            // exported: a tensor, which the owner serves
  bool owner_released = false;       // exported: released by its owner, still held
  ActorId entrusted{};               // exported: actor, owned by the job, of its handles
  std::set<NodeId> replica_nodes{};  // nodes that store the bytes until we release them
  std::set<NodeId> copies{};         // nodes with a replica under their own hold
  std::set<NodeId> askers{};         // nodes that wait for the location
  std::vector<NodeId> fetchers{};  // nodes without a replica that received the locations, in order
  std::uint64_t answers = 0;       // replies with locations so far
  std::set<NodeId> unconfirmed{};  // nodes whose holds wait for the claim

  // Away from home.
  NodeHoldState node_hold = NodeHoldState::none;
  std::set<ProcessId> hold_waiters{};

  // On the node of the writer, away from home.
  std::set<ProcessId> sealers{};     // processes that wait for the home's confirmation
  std::set<ProcessId> found_here{};  // with a pin each: processes sent to seal these bytes
  bool writer_borrows = false;       // the writer also holds the object as a borrower
};

}  // namespace mobula::internal::worker
