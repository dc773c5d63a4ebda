// Events and commands of the executor core. Every struct has a field list, so that inputs can be
// recorded and a replay compared.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/model/resident_results.h"
#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::executor {

// ---- events ------------------------------------------------------------------------------------

struct Assigned {
  AssignExecutor assignment;
  MOBULA_FIELDS(assignment);
  friend bool operator==(const Assigned&, const Assigned&) = default;
};
// A frame of an authenticated caller.
struct ReceivedFromCaller {
  ProcessId caller;
  CallerFrame frame;
  MOBULA_FIELDS(caller, frame);
  friend bool operator==(const ReceivedFromCaller&, const ReceivedFromCaller&) = default;
};
struct CallerGone {
  ProcessId caller;
  MOBULA_FIELDS(caller);
  friend bool operator==(const CallerGone&, const CallerGone&) = default;
};
// The refs of FetchArguments can be read, or one of them never will be.
struct ArgumentsFetched {
  std::uint64_t token = 0;
  std::optional<Failure> failure;
  std::vector<ObjectId> lost{};    // set with a failure: tensor elements that no longer exist
  std::vector<ObjectId> unread{};  // set with a failure: objects that could not be read
  MOBULA_FIELDS(token, failure, lost, unread);
  friend bool operator==(const ArgumentsFetched&, const ArgumentsFetched&) = default;
};
// User code returned. Its results are stored, and the holds on refs that it keeps are confirmed.
struct CallFinished {
  std::uint64_t token = 0;
  CallOutcome outcome = CallOutcome::value;
  Results results;
  std::vector<ObjectId> kept;
  std::vector<Handover> handovers;
  RefRecords pinned;  // refs in the results, until the caller holds them
  Duration run_time{};
  std::int64_t pid = 0;
  bool leave = false;  // exit_actor was called
  MOBULA_FIELDS(token, outcome, results, kept, handovers, pinned, run_time, pid, leave);
  friend bool operator==(const CallFinished&, const CallFinished&) = default;
};
// The thread of a running call begins (`on`) or ends a wait in a blocking operation.
struct CallBlocked {
  std::uint64_t token = 0;
  bool on = false;
  MOBULA_FIELDS(token, on);
  friend bool operator==(const CallBlocked&, const CallBlocked&) = default;
};
struct EndAsked {
  bool graceful = true;
  bool stores = false;   // held results are moved elsewhere first, even if not graceful
  bool orderly = false;  // if not graceful: the actor is destroyed and exit handlers run
  MOBULA_FIELDS(graceful, stores, orderly);
  friend bool operator==(const EndAsked&, const EndAsked&) = default;
};
struct Tick {
  MOBULA_FIELDS();
  friend bool operator==(const Tick&, const Tick&) = default;
};
// Reply to Evacuate.
struct Evacuated {
  MOBULA_FIELDS();
  friend bool operator==(const Evacuated&, const Evacuated&) = default;
};
// Replies to AwaitSubmitted: some calls are unfinished, or with SubmittedDone, all are finished.
struct SubmittedPending {
  std::uint64_t calls = 0;
  std::string example;  // name of one of them
  MOBULA_FIELDS(calls, example);
  friend bool operator==(const SubmittedPending&, const SubmittedPending&) = default;
};
// Reply to DestroyActor.
struct ActorDestroyed {
  MOBULA_FIELDS();
  friend bool operator==(const ActorDestroyed&, const ActorDestroyed&) = default;
};
struct SubmittedDone {
  MOBULA_FIELDS();
  friend bool operator==(const SubmittedDone&, const SubmittedDone&) = default;
};
// The results of calls that this process holds changed. The event has all of them, and precedes the
// end of the call that caused the change.
struct ResultsHeld {
  ResidentResults residence;
  MOBULA_FIELDS(residence);
  friend bool operator==(const ResultsHeld&, const ResultsHeld&) = default;
};
// The agent reports that this process exceeds its share of a device.
struct ShareExceeded {
  std::string text;
  MOBULA_FIELDS(text);
  friend bool operator==(const ShareExceeded&, const ShareExceeded&) = default;
};
using Event = std::variant<Assigned, ReceivedFromCaller, CallerGone, ArgumentsFetched, CallFinished,
                           CallBlocked, EndAsked, Tick, Evacuated, ResultsHeld, ShareExceeded,
                           SubmittedPending, SubmittedDone, ActorDestroyed>;

// ---- commands ----------------------------------------------------------------------------------

struct SendToCaller {
  ProcessId caller;
  ExecutorFrame frame;
  MOBULA_FIELDS(caller, frame);
  friend bool operator==(const SendToCaller&, const SendToCaller&) = default;
};
struct SendToAgent {
  ProcessToAgent message;
  MOBULA_FIELDS(message);
  friend bool operator==(const SendToAgent&, const SendToAgent&) = default;
};
struct FetchArguments {
  std::uint64_t token = 0;
  std::vector<Argument> refs;  // arguments with is_ref
  RefRecords tensors;          // separately stored elements of tensors in the other arguments
  ProcessId caller;
  MOBULA_FIELDS(token, refs, tensors, caller);
  friend bool operator==(const FetchArguments&, const FetchArguments&) = default;
};
// Results that other processes refer to must leave this process before it exits. Evacuated is the
// reply.
struct Evacuate {
  MOBULA_FIELDS();
  friend bool operator==(const Evacuate&, const Evacuate&) = default;
};
struct RunCall {
  std::uint64_t token = 0;
  ProcessId caller;
  CallRecord call;
  MOBULA_FIELDS(token, caller, call);
  friend bool operator==(const RunCall&, const RunCall&) = default;
};
// The call never runs here, so its fetched arguments can be dropped.
struct DropCall {
  std::uint64_t token = 0;
  MOBULA_FIELDS(token);
  friend bool operator==(const DropCall&, const DropCall&) = default;
};
// current().cancelled() becomes true; with `recursive`, its children are cancelled.
struct CancelRunning {
  std::uint64_t token = 0;
  bool recursive = true;
  MOBULA_FIELDS(token, recursive);
  friend bool operator==(const CancelRunning&, const CancelRunning&) = default;
};
struct ReleasePins {
  RefRecords refs;
  bool unheld = false;  // no process has held them, or will
  MOBULA_FIELDS(refs, unheld);
  friend bool operator==(const ReleasePins&, const ReleasePins&) = default;
};
// The process exits as planned. SubmittedDone follows when all calls that it submitted are
// finished, and SubmittedPending at once if some are not.
struct AwaitSubmitted {
  MOBULA_FIELDS();
  friend bool operator==(const AwaitSubmitted&, const AwaitSubmitted&) = default;
};
// No call runs any more: a thread that runs calls destroys the actor.
struct DestroyActor {
  MOBULA_FIELDS();
  friend bool operator==(const DestroyActor&, const DestroyActor&) = default;
};
// All replies are sent, and the process exits now.
struct Leave {
  EndKind kind = EndKind::retired;
  bool exit_handlers = false;  // exit handlers run first
  MOBULA_FIELDS(kind, exit_handlers);
  friend bool operator==(const Leave&, const Leave&) = default;
};
using Command =
    std::variant<SendToCaller, SendToAgent, FetchArguments, RunCall, DropCall, CancelRunning,
                 ReleasePins, Leave, Evacuate, AwaitSubmitted, DestroyActor>;

}  // namespace mobula::internal::executor
