// Events of the executor core. Every struct has a field list, so that inputs can be recorded.
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
// A process is dead, for example a caller, or the agent of several callers.
struct CallerGone {
  ProcessId caller;
  MOBULA_FIELDS(caller);
  friend bool operator==(const CallerGone&, const CallerGone&) = default;
};
// A caller connected with a ticket. An executor ends with its agent, a driver does not.
struct CallerAdmitted {
  ProcessId caller;
  ProcessId agent;  // incarnation of its agent; empty for a driver
  MOBULA_FIELDS(caller, agent);
  friend bool operator==(const CallerAdmitted&, const CallerAdmitted&) = default;
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
  bool leave = false;     // exit_actor was called
  bool no_retry = false;  // exception: not of a type that is retried
  MOBULA_FIELDS(token, outcome, results, kept, handovers, pinned, run_time, pid, leave, no_retry);
  friend bool operator==(const CallFinished&, const CallFinished&) = default;
};
// A running streaming call yielded an item. Its value is stored, and the holds on refs that it
// keeps are confirmed.
struct ItemGiven {
  std::uint64_t token = 0;
  std::uint64_t index = 0;
  ValueRecord value;
  std::vector<Handover> handovers;
  RefRecords pinned;  // refs in the value, until the caller holds them
  MOBULA_FIELDS(token, index, value, handovers, pinned);
  friend bool operator==(const ItemGiven&, const ItemGiven&) = default;
};
// The thread of a running call begins (`on`) or ends a wait in a blocking operation.
struct CallBlocked {
  std::uint64_t token = 0;
  bool on = false;
  MOBULA_FIELDS(token, on);
  friend bool operator==(const CallBlocked&, const CallBlocked&) = default;
};
struct EndRequested {
  bool graceful = true;
  bool stores = false;   // held results are moved elsewhere first, even if not graceful
  bool orderly = false;  // if not graceful: the actor is destroyed and exit handlers run
  MOBULA_FIELDS(graceful, stores, orderly);
  friend bool operator==(const EndRequested&, const EndRequested&) = default;
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
// Reply to ReleaseName: no process can find the actor by its name.
struct NameReleased {
  MOBULA_FIELDS();
  friend bool operator==(const NameReleased&, const NameReleased&) = default;
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
                           CallBlocked, EndRequested, Tick, Evacuated, ResultsHeld, ShareExceeded,
                           SubmittedPending, SubmittedDone, ActorDestroyed, NameReleased, ItemGiven,
                           CallerAdmitted>;

}  // namespace mobula::internal::executor
