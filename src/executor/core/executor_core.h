// What a process that runs calls has to decide: which call runs next, in which order callers are
// served, what is handed back, when to lend the CPU and when to leave. One slot generation or one
// actor incarnation. Pure: events in, commands out; no clock, I/O or thread. It belongs to the lock
// of the process's runtime, like the client core beside it, which owns what the calls submit.
//
// It does not run user code (shell), nor see values: results come to it stored and described.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/table.h"
#include "base/time.h"
#include "model/task.h"
#include "protocol/call_stream.h"
#include "protocol/local_control.h"
#include "session/session.h"

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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &ArgumentsFetched::token),
                 field("failure", &ArgumentsFetched::failure));
  }
  friend bool operator==(const ArgumentsFetched&, const ArgumentsFetched&) = default;
};
// User code has returned; its results are stored, what it keeps is held and confirmed.
struct CallFinished {
  std::uint64_t token = 0;
  CallOutcome outcome = CallOutcome::value;
  std::vector<ValueRecord> results;
  std::vector<ObjectId> kept;
  std::vector<Handover> handovers;
  std::vector<RefRecord> pinned;  // inside the results, until the caller holds them
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("graceful", &EndAsked::graceful));
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
using Event = std::variant<Assigned, CallerSaid, CallerGone, ArgumentsFetched, CallFinished,
                           CallBlocked, EndAsked, Tick>;

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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("token", &FetchArguments::token), field("refs", &FetchArguments::refs));
  }
  friend bool operator==(const FetchArguments&, const FetchArguments&) = default;
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
  std::vector<RefRecord> refs;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &ReleasePins::refs));
  }
  friend bool operator==(const ReleasePins&, const ReleasePins&) = default;
};
// Everything is answered: the process ends now.
struct Leave {
  EndKind kind = EndKind::retired;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("kind", &Leave::kind));
  }
  friend bool operator==(const Leave&, const Leave&) = default;
};
using Command = std::variant<TellCaller, TellAgent, FetchArguments, RunCall, DropCall,
                             CancelRunning, ReleasePins, Leave>;

struct ExecutorOptions {
  Duration leave_bound = 1s;        // callers have this long to acknowledge before a planned exit
  std::size_t max_queue = 100'000;  // calls waiting here; more are handed back
  Duration tell_started_after = 50ms;  // callers are told of calls that run so long
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("leave_bound", &ExecutorOptions::leave_bound),
                 field("max_queue", &ExecutorOptions::max_queue),
                 field("tell_started_after", &ExecutorOptions::tell_started_after));
  }
  friend bool operator==(const ExecutorOptions&, const ExecutorOptions&) = default;
};

class ExecutorCore {
 public:
  using Options = ExecutorOptions;
  using Event = executor::Event;
  using Command = executor::Command;

  explicit ExecutorCore(ExecutorOptions options = {}) : options_(options) {}

  void step(Time now, Event event, std::vector<Command>& out);
  std::optional<Time> next_deadline() const;

  std::size_t queued() const { return queue_.size(); }
  std::size_t running() const { return running_.size(); }
  bool leaving() const { return leaving_.has_value(); }

 private:
  struct CallerRow {
    Session<ExecutorMessage, CallerMessage> session;
    std::uint64_t last_number = 0;                           // highest call number seen
    std::map<std::uint64_t, std::vector<RefRecord>> pinned;  // replies not yet held
  };
  struct CallRow {
    std::uint64_t token = 0;
    ProcessId caller;  // empty: the constructor
    std::uint64_t number = 0;
    CallRecord call;
    bool ready = false;  // arguments are here
    bool blocked = false;
    bool cancelled = false;
    Time started;               // running
    bool told_started = false;  // or nobody to tell
  };

  void on(const Assigned& event);
  void on(CallerSaid& event);
  void on(const CallerGone& event);
  void on(const ArgumentsFetched& event);
  void on(CallFinished& event);
  void on(const CallBlocked& event);
  void on(const EndAsked& event);
  void on(const Tick& event);
  void caller_says(ProcessId caller, PushCall& message);
  void caller_says(ProcessId caller, CancelCall& message);
  void caller_says(ProcessId caller, TakeBackCalls& message);
  void caller_says(ProcessId caller, ReplyHeld& message);

  void admit(CallRow row);
  void start_ready();
  void tell_started();
  bool accepts_calls() const;
  void reply(const CallRow& row, CallReply reply);
  void hand_back(const CallRow& row, std::string why);
  void hand_back_queue();
  void say(ProcessId caller, ExecutorMessage message);
  void leave_when_done(EndKind kind);
  void say_farewell();
  void try_leave();
  void update_lending();
  bool is_actor() const { return !assignment_.actor.actor.empty(); }
  std::size_t max_running() const;
  void emit(Command command) { out_->push_back(std::move(command)); }

  ExecutorOptions options_;
  AssignExecutor assignment_;
  bool constructed_ = false;  // tasks: from the start; actors: the constructor has returned
  std::uint64_t next_token_ = 1;
  std::int64_t finished_ = 0;
  Table<ProcessId, CallerRow> callers_;
  Table<std::uint64_t, CallRow> queue_;    // by token, in order of arrival
  Table<std::uint64_t, CallRow> running_;  // likewise, in the order of their starts
  std::vector<ExecutorFrame> frames_;      // that leave; kept for its memory
  std::optional<Time> blocked_since_;  // every running call waits
  bool lent_ = false;
  std::optional<EndKind> leaving_;  // nothing new starts
  bool farewell_said_ = false;      // StreamRetires sent
  Time leave_by_;
  bool left_ = false;

  Time now_;
  std::vector<Command>* out_ = nullptr;
};

}  // namespace mobula::internal::executor
