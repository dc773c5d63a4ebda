// What the executor core is told, what it says that its shell is to do, and how it is set up. Every struct
// has a field list, so that inputs can be recorded and a replay compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "model/residence.h"
#include "model/task.h"
#include "protocol/call_stream.h"
#include "protocol/local_control.h"

namespace mobula::internal::executor {

// ---- events ------------------------------------------------------------------------------------

struct Assigned {
  AssignExecutor assignment;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("assignment", &Assigned::assignment));
  }
  friend bool operator==(const Assigned&, const Assigned&) = default;
};
// From a caller that has proved who it is.
struct CallerSaid {
  ProcessId caller;
  CallerFrame frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("caller", &CallerSaid::caller), field("frame", &CallerSaid::frame));
  }
  friend bool operator==(const CallerSaid&, const CallerSaid&) = default;
};
struct CallerGone {
  ProcessId caller;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("caller", &CallerGone::caller));
  }
  friend bool operator==(const CallerGone&, const CallerGone&) = default;
};
// The refs of FetchArguments can be read, or one of them never will be.
struct ArgumentsFetched {
  std::uint64_t token = 0;
  std::optional<Failure> failure;
  std::vector<ObjectId> lost{};  // with a failure: elements of tensors that are nowhere any more
  std::vector<ObjectId> unread{};  // with a failure: objects that could not be read
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &ArgumentsFetched::token), field("failure", &ArgumentsFetched::failure),
                 field("lost", &ArgumentsFetched::lost), field("unread", &ArgumentsFetched::unread));
  }
  friend bool operator==(const ArgumentsFetched&, const ArgumentsFetched&) = default;
};
// User code has returned; its results are stored, what it keeps is held and confirmed.
struct CallFinished {
  std::uint64_t token = 0;
  CallOutcome outcome = CallOutcome::value;
  Results results;
  std::vector<ObjectId> kept;
  std::vector<Handover> handovers;
  RefRecords pinned;  // inside the results, until the caller holds them
  Duration run_time{};
  std::int64_t pid = 0;
  bool leave = false;  // exit_actor was called
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &CallFinished::token), field("outcome", &CallFinished::outcome),
                 field("results", &CallFinished::results), field("kept", &CallFinished::kept),
                 field("handovers", &CallFinished::handovers),
                 field("pinned", &CallFinished::pinned), field("run_time", &CallFinished::run_time),
                 field("pid", &CallFinished::pid), field("leave", &CallFinished::leave));
  }
  friend bool operator==(const CallFinished&, const CallFinished&) = default;
};
// The thread of a running call waits in a blocking operation, or goes on.
struct CallBlocked {
  std::uint64_t token = 0;
  bool on = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &CallBlocked::token), field("on", &CallBlocked::on));
  }
  friend bool operator==(const CallBlocked&, const CallBlocked&) = default;
};
struct EndAsked {
  bool graceful = true;
  bool stores = false;  // results that are held go elsewhere first, also if not graceful
  bool orderly = false;  // not graceful: the actor is destroyed and exit handlers run
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("graceful", &EndAsked::graceful), field("stores", &EndAsked::stores),
                 field("orderly", &EndAsked::orderly));
  }
  friend bool operator==(const EndAsked&, const EndAsked&) = default;
};
struct Tick {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const Tick&, const Tick&) = default;
};
// Answer to Evacuate.
struct Evacuated {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const Evacuated&, const Evacuated&) = default;
};
// Answers to AwaitSubmitted: calls that this process has submitted are not finished yet; all are finished.
struct SubmittedPending {
  std::uint64_t calls = 0;
  std::string example;  // name of one of them
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("calls", &SubmittedPending::calls), field("example", &SubmittedPending::example));
  }
  friend bool operator==(const SubmittedPending&, const SubmittedPending&) = default;
};
// Answer to DestroyActor.
struct ActorDestroyed {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const ActorDestroyed&, const ActorDestroyed&) = default;
};
struct SubmittedDone {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const SubmittedDone&, const SubmittedDone&) = default;
};
// What this process holds of its calls' results has changed: all that it holds. Told before the end of the call
// that made it.
struct ResultsHeld {
  Residence residence;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("residence", &ResultsHeld::residence));
  }
  friend bool operator==(const ResultsHeld&, const ResultsHeld&) = default;
};
// The agent says that this process has more of a device than its share.
struct ShareExceeded {
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("text", &ShareExceeded::text));
  }
  friend bool operator==(const ShareExceeded&, const ShareExceeded&) = default;
};
using Event = std::variant<Assigned, CallerSaid, CallerGone, ArgumentsFetched, CallFinished,
                           CallBlocked, EndAsked, Tick, Evacuated, ResultsHeld, ShareExceeded,
                           SubmittedPending, SubmittedDone, ActorDestroyed>;

// ---- commands ----------------------------------------------------------------------------------

struct TellCaller {
  ProcessId caller;
  ExecutorFrame frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("caller", &TellCaller::caller), field("frame", &TellCaller::frame));
  }
  friend bool operator==(const TellCaller&, const TellCaller&) = default;
};
struct TellAgent {
  ProcessToAgent message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("message", &TellAgent::message));
  }
  friend bool operator==(const TellAgent&, const TellAgent&) = default;
};
struct FetchArguments {
  std::uint64_t token = 0;
  std::vector<Argument> refs;  // those with is_ref
  RefRecords tensors;  // of the others: elements that are not in their values
  ProcessId caller;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &FetchArguments::token), field("refs", &FetchArguments::refs),
                 field("tensors", &FetchArguments::tensors), field("caller", &FetchArguments::caller));
  }
  friend bool operator==(const FetchArguments&, const FetchArguments&) = default;
};
// What others refer to and lies in this process has to go elsewhere before it ends: say Evacuated then.
struct Evacuate {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const Evacuate&, const Evacuate&) = default;
};
struct RunCall {
  std::uint64_t token = 0;
  ProcessId caller;
  CallRecord call;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &RunCall::token), field("caller", &RunCall::caller),
                 field("call", &RunCall::call));
  }
  friend bool operator==(const RunCall&, const RunCall&) = default;
};
// Never to be run here: its fetched arguments may go.
struct DropCall {
  std::uint64_t token = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &DropCall::token));
  }
  friend bool operator==(const DropCall&, const DropCall&) = default;
};
// current().cancelled() becomes true; with `recursive`, its children are cancelled.
struct CancelRunning {
  std::uint64_t token = 0;
  bool recursive = true;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &CancelRunning::token),
                 field("recursive", &CancelRunning::recursive));
  }
  friend bool operator==(const CancelRunning&, const CancelRunning&) = default;
};
struct ReleasePins {
  RefRecords refs;
  bool unheld = false;  // nobody has held them, nor will
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &ReleasePins::refs), field("unheld", &ReleasePins::unheld));
  }
  friend bool operator==(const ReleasePins&, const ReleasePins&) = default;
};
// The process exits as planned: answer SubmittedDone when all calls that it has submitted are finished, and
// SubmittedPending at once if some are not.
struct AwaitSubmitted {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const AwaitSubmitted&, const AwaitSubmitted&) = default;
};
// No call runs any more: the destructor of the actor runs, on a thread that runs calls.
struct DestroyActor {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const DestroyActor&, const DestroyActor&) = default;
};
// Everything is answered: the process ends now.
struct Leave {
  EndKind kind = EndKind::retired;
  bool exit_handlers = false;  // they run first
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("kind", &Leave::kind), field("exit_handlers", &Leave::exit_handlers));
  }
  friend bool operator==(const Leave&, const Leave&) = default;
};
using Command = std::variant<TellCaller, TellAgent, FetchArguments, RunCall, DropCall,
                             CancelRunning, ReleasePins, Leave, Evacuate, AwaitSubmitted, DestroyActor>;

struct ExecutorOptions {
  Duration leave_bound = 1s;        // callers have this long to acknowledge before a planned exit
  Duration orphans_bound = 1s;      // what callers that died were given stays held for so long, for those they gave it
  Duration evacuation_bound = 30s;  // and what others refer to, to be elsewhere
  std::size_t max_queue = 100'000;  // calls waiting here; more are handed back
  Duration tell_started_after = 50ms;  // callers are told of calls that run so long
  Duration tell_residence_after = 1s;  // the agent is told of fewer results so seldom
  Duration release_delay = 200ms;  // a process that awaits submitted calls keeps the resources of its slot until then
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("leave_bound", &ExecutorOptions::leave_bound),
                 field("orphans_bound", &ExecutorOptions::orphans_bound),
                 field("evacuation_bound", &ExecutorOptions::evacuation_bound),
                 field("max_queue", &ExecutorOptions::max_queue),
                 field("tell_started_after", &ExecutorOptions::tell_started_after),
                 field("tell_residence_after", &ExecutorOptions::tell_residence_after),
                 field("release_delay", &ExecutorOptions::release_delay));
  }
  friend bool operator==(const ExecutorOptions&, const ExecutorOptions&) = default;
};

}  // namespace mobula::internal::executor
