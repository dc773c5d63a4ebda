// What the agent knows of an object beyond the object table's row: whose it is, where copies are
// and who waits for what. Rows of Objects; an entry lives exactly as long as its row in the table.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/task.h"
#include "transfer/core/pull_queue.h"

namespace mobula::internal::worker {

enum class NodeHoldState : unsigned char { none, asked, confirmed };

struct ObjectEntry {
  NodeId home{};
  ProcessId owner{};
  std::uint64_t size_bytes = 0;
  bool is_error = false;
  std::vector<RefRecord> contained{};
  std::vector<ObjectId> pinned{};    // those of them that are held, while the bytes are here
  std::optional<Failure> failure{};  // it will not come

  // Everywhere: processes of this node that wait to read it, and what is done about it.
  std::set<ProcessId> readers{};
  transfer::PullId pull = 0;
  int tries = 0;                     // pulls that failed in a row
  bool waits_for_room = false;       // for the copy that is to be pulled
  std::vector<NodeId> sources{};     // away from home: who has it, as told last
  NodeId asked{};                    // who owes us an ObjectStatus
  std::optional<Time> locate_by{};   // the head is asked who has copies
  std::string lost_cause{};          // why that is so
  std::vector<NodeId> candidates{};  // named by the head, to be asked in turn
  int pins = 0;                      // holds of the agent itself: contained, pulled, read by peers
  // With a pin: who said whose it is, or passed a ref of it on, has died; others may still come.
  std::optional<Time> orphan_until{};
  bool copy_reported = false;        // to the head, as ObjectCopies

  // At home.
  bool claimed = false;            // an owner has said that it exists, or will
  std::optional<Time> claim_by{};  // with a pin, until the claim or the end of patience
  bool exported = false;
  bool owner_released = false;     // exported: the owner waits until nobody holds it
  std::set<NodeId> keepers{};      // keep bytes for us, until we release them
  std::set<NodeId> copies{};       // have bytes by holds of their own
  std::set<NodeId> askers{};       // want to know where it is
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
