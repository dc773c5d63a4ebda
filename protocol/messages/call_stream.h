// Messages of a call stream, between one caller incarnation and one executor generation. Calls are
// numbered at submission and run at most once; replies are kept until acknowledged.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/model/task.h"
#include "base/time.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// ---- caller to executor ------------------------------------------------------------------------

// A call of an actor is rejected for lost tensor elements (CallReply::lost) or a full queue
// (CallReturned::queue_full). A rejection begins a new round of its stream: the executor returns
// the unstarted calls of earlier rounds. The caller resends all of them in order in the new round.
struct PushCall {
  std::uint64_t number = 0;  // position in the stream, from 1, without gaps
  CallRecord call;
  // latest round that the caller knows, from 1; 0: the release of the caller has no rounds
  std::uint64_t round = 0;
  MOBULA_FIELDS(number, call, round);
  friend bool operator==(const PushCall&, const PushCall&) = default;
};

// A call that has not started ends as cancelled. For a running call, current().cancelled() becomes
// true.
struct CancelCall {
  std::uint64_t number = 0;
  bool recursive = true;
  // a running call ends with its executor; other calls of the executor are returned
  bool force = false;
  MOBULA_FIELDS(number, recursive, force);
  friend bool operator==(const CancelCall&, const CancelCall&) = default;
};

// Requests the return of every unstarted call. Each one is answered by CallReturned.
struct ReturnCallsRequest {
  MOBULA_FIELDS();
  friend bool operator==(const ReturnCallsRequest&, const ReturnCallsRequest&) = default;
};

// The caller holds the refs in the values of the reply, so the executor may drop its own holds.
struct ReplyClaimed {
  std::uint64_t number = 0;
  // the caller released the reply early: it neither holds nor will hold the refs in it
  bool unheld = false;
  // number 0: the caller has no handle left and sends no further acknowledgement
  bool closes = false;
  std::uint64_t item = 0;  // from 1: the item of a streaming call; 0: the reply
  MOBULA_FIELDS(number, unheld, closes, item);
  friend bool operator==(const ReplyClaimed&, const ReplyClaimed&) = default;
};

// Consumers took the items of a streaming call below `taken`, so its window moves.
struct ItemsTaken {
  std::uint64_t number = 0;
  std::uint64_t taken = 0;
  MOBULA_FIELDS(number, taken);
  friend bool operator==(const ItemsTaken&, const ItemsTaken&) = default;
};

using CallerMessage =
    std::variant<PushCall, CancelCall, ReturnCallsRequest, ReplyClaimed, ItemsTaken>;

// ---- executor to caller ------------------------------------------------------------------------

enum class CallOutcome : std::uint8_t {
  value = 0,
  exception = 1,  // `results` holds the error; retryable if the caller requested it
  cancelled = 2,
  failed = 3,  // the runtime could not run the call (unknown function, lost argument, full store)
};

// A task that the executor submitted, and whose result escaped in a reply while the executor is
// about to exit. The caller becomes its owner and runs it, possibly a second time.
struct Handover {
  CallRecord call;
  DemandClass demand_class;
  std::int32_t retries_left = 0;
  MOBULA_FIELDS(call, demand_class, retries_left);
  friend bool operator==(const Handover&, const Handover&) = default;
};

struct CallReply {
  std::uint64_t number = 0;
  TaskId task;
  std::uint32_t attempt = 0;
  CallOutcome outcome = CallOutcome::value;
  Results results;             // `num_returns` values, or one error
  std::vector<ObjectId> kept;  // refs of the arguments that the executor still holds, confirmed
  std::vector<Handover> handovers;
  Duration run_time{};
  std::int64_t pid = 0;
  // failed: tensor elements of the arguments that no longer exist anywhere
  std::vector<ObjectId> lost;
  // failed: arguments by reference that the executor could not read
  std::vector<ObjectId> unread{};
  bool no_retry = false;  // exception: not of a type that is retried
  MOBULA_FIELDS(number, task, attempt, outcome, results, kept, handovers, run_time, pid, lost,
                unread, no_retry);
  friend bool operator==(const CallReply&, const CallReply&) = default;
};

// The call did not start in this executor and never will.
struct CallReturned {
  std::uint64_t number = 0;
  TaskId task;
  // empty: returned on request, because its round is over, or because the executor retires
  std::string why;
  bool queue_full = false;  // actor call: too many calls wait at the actor
  MOBULA_FIELDS(number, task, why, queue_full);
  friend bool operator==(const CallReturned&, const CallReturned&) = default;
};

// The call has run for a while. Sent once, and only for long calls, so that short calls cost no
// message. It serves queries and decides nothing: the order of a stream shows which call of a dead
// executor had started.
struct CallStarted {
  std::uint64_t number = 0;
  Duration run_time{};  // duration until this message
  MOBULA_FIELDS(number, run_time);
  friend bool operator==(const CallStarted&, const CallStarted&) = default;
};

// The executor retires. It has answered every call up to `last` and returns later calls.
struct StreamClosing {
  std::uint64_t last = 0;
  MOBULA_FIELDS(last);
  friend bool operator==(const StreamClosing&, const StreamClosing&) = default;
};

// The executor begins or ceases to hold results of its calls that other processes may still need.
// Sent before the reply that causes the change.
struct ResidentStateChanged {
  bool on = false;
  MOBULA_FIELDS(on);
  friend bool operator==(const ResidentStateChanged&, const ResidentStateChanged&) = default;
};

// A running streaming call yielded an item. All items precede the reply, in order. A repeated run
// sends only the items that the caller lacks.
struct ItemYielded {
  std::uint64_t number = 0;
  TaskId task;
  std::uint64_t index = 0;  // from 0
  ValueRecord value;
  std::vector<Handover> handovers;
  MOBULA_FIELDS(number, task, index, value, handovers);
  friend bool operator==(const ItemYielded&, const ItemYielded&) = default;
};

using ExecutorMessage = std::variant<CallReply, CallReturned, CallStarted, StreamClosing,
                                     ResidentStateChanged, ItemYielded>;

using CallerFrame = Frame<CallerMessage>;
using ExecutorFrame = Frame<ExecutorMessage>;

}  // namespace mobula::internal
