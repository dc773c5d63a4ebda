// Rows of objects that a process owns, pins, or has refs to.
// Thread: owner. Owner: ObjectRefs.
#pragma once

#include <cstdint>
#include <optional>

#include "base/containers/copy_on_write.h"
#include "base/model/error_record.h"
#include "base/model/task.h"
#include "base/time.h"
#include "client/core/calls/task_row.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::client {

// put_off: deferred. The process that passed the ref keeps its own hold until this one reports that
// it may release it.
enum class HoldState : std::uint8_t { none, requested, confirmed, put_off };

// Location at which this process reads the bytes of a stored value.
struct Reading {
  std::uint64_t fetch = 0;           // number of the latest fetch
  std::uint64_t location_fetch = 0;  // fetch that made `location` readable
  SlabRange location;
  std::optional<Failure> failure;  // failure of the latest fetch; a new want retries
};

// One object that this process owns, pins, or has refs to. Millions may exist, so rare members are
// allocated separately.
struct ObjectRow {
  CopyOnWrite<RefRecord> ref;      // empty: owned by this process, home on its node
  CopyOnWrite<ValueRecord> value;  // valid if ready
  CopyOnWrite<Reading> reading;
  TaskId creator;          // task that makes an owned result
  std::int32_t refs = 0;   // count of refs of user code
  std::int32_t pins = 0;   // count of arguments of unfinished calls and contents of other values
  std::int32_t wants = 0;  // count of waiting threads and of views of its bytes
  WatcherIndex watchers = no_watcher;
  HoldState hold = HoldState::none;  // for a borrowed object
  bool owned : 1 = false;
  bool ready : 1 = false;     // `value` is set
  bool exported : 1 = false;  // owned: other processes may request it
  bool released : 1 = false;  // exported: not used here, awaits ExportReleased
  bool storing : 1 = false;   // a value is being written into the store
  bool fetching : 1 = false;
  bool readable : 1 = false;          // at the location in `reading`
  bool return_requested : 1 = false;  // readable: the agent awaits the location after the last view
  bool written : 1 = false;           // owned: this process wrote it there, and has it mapped
  bool lent : 1 = false;              // borrowed by running calls, see BorrowRow
  bool passed_on : 1 = false;         // while lent: this process may have passed it on
  bool unsaid : 1 = false;            // own tensor in replies without a report of their receivers
  bool lineage_given_up : 1 = false;  // its task was dropped from the lineage
  bool of_cancelled : 1 = false;      // item of a cancelled stream, which never runs again
  bool lost : 1 = false;              // borrowed: the value states the loss; a want reads again
  // A position of a stream. Owned: see ItemStreams. Borrowed: one that a reader has reached, see
  // StreamReads.
  bool position : 1 = false;
  bool doubted : 1 = false;  // an executor could not read it, and this process tries to
  // Not empty: the object stands for the handles of this actor and never becomes ready.
  ActorId actor() const { return ref->actor; }
  // True if calls that need it wait.
  bool is_missing() const { return !ready || doubted; }
  // True if the value is not in the store, or its bytes are here too.
  bool is_inline() const { return !value->in_store || !value->bytes.empty(); }
  void forget_failure() {
    if (reading->failure) reading.edit().failure.reset();
  }
  // True for tensor elements of this process. The core stores no bytes of them.
  bool is_kept_tensor() const { return owned && !ref->tensor.is_empty(); }
};

// Counts of the borrows of an object and of the replies that contain it. Few objects have such a
// row.
struct BorrowRow {
  std::int32_t calls = 0;    // count of running calls whose callers hold it for this process
  std::int32_t replies = 0;  // count of replies whose receivers have not reported back
};

// Reason why this process cannot read the bytes of an object as an argument. Empty: it can, or
// awaits them.
std::optional<Failure> why_unread(const ObjectRow& row);

// Encodes an error as a value.
ValueRecord error_value(const ErrorRecord& error);

// A value that is being written into the node's store: by a thread, or if `escaping` by the shell,
// from the bytes of the object or from its mapping.
struct WriteRow {
  std::int64_t size_bytes = 0;
  ProcessId owner;
  NodeId home;
  bool escaping = false;    // the value of an own object, not of a thread
  SlabRange location = {};  // location that the agent returned
  SlabRange copy_of = {};   // if escaping: location of the value in the store of a dead agent
  bool lost = false;        // the agent that returned `location` to a thread died since
  std::optional<Failure> there = {};  // already on this node: reported once the owner holds it
  std::optional<Time> retry_at;       // if escaping: the store was full
};

}  // namespace mobula::internal::client
