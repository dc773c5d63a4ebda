// What a process that runs calls has to decide: which call runs next, in which order callers are
// served, what is handed back, when to lend the CPU, when results make the slot resident and when to leave. One slot generation or one
// actor incarnation. Pure: events in, commands out; no clock, I/O or thread. It belongs to the lock
// of the process's runtime, like the client core beside it, which owns what the calls submit.
//
// It does not run user code (shell), nor see values: results come to it stored and described.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/copy_on_write.h"
#include "base/deadline_heap.h"
#include "base/latest.h"
#include "base/table.h"
#include "base/time.h"
#include "executor/core/executor_words.h"
#include "session/session.h"

namespace mobula::internal::executor {

// A call that ran here, for timelines.
struct RanCallSpan {
  TaskId task;
  CopyOnWrite<CallForm> form;
  Time began;
  Time ended;
  bool failed = false;
};
using RanCalls = Latest<RanCallSpan, 4096>;

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
  const RanCalls& ran() const { return ran_; }

 private:
  struct CallerRow {
    Session<ExecutorMessage, CallerMessage> session;
    std::uint64_t last_number = 0;                           // highest call number seen
    std::uint64_t round = 1;                                 // what comes of rounds before goes back
    bool knows_rounds = false;
    std::optional<Time> armed;  // see DeadlineHeap
    // No call since the caller was opened or released its last handle: it acknowledges nothing.
    bool closed = true;
    RecycledMap<std::uint64_t, RefRecords> pinned;  // replies not yet held
  };
  struct CallRow {
    std::uint64_t token = 0;
    ProcessId caller;  // empty: the constructor
    std::uint64_t number = 0;
    CallRecord call;
    bool ready = false;  // arguments are here
    bool blocked = false;
    bool cancelled = false;
    std::string over_share{};  // it ends with this as its error
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
  void on(const Evacuated&) { evacuation_ = Evacuation::over; }
  void on(const ResultsHeld& event);
  void on(const ShareExceeded& event);
  void on(const SubmittedPending& event);
  void on(const ActorDestroyed&) { object_ = Object::destroyed; }
  void on(const SubmittedDone&) { submitted_ = Submitted::done; }
  void caller_says(ProcessId caller, PushCall& message);
  void caller_says(ProcessId caller, CancelCall& message);
  void caller_says(ProcessId caller, TakeBackCalls& message);
  void caller_says(ProcessId caller, ReplyHeld& message);

  void admit(CallRow row);
  void start_ready();
  void start_beside();
  void start(CallRow row);
  void tell_started();
  bool accepts_calls() const;
  void reply(const CallRow& row, CallReply reply);
  void hand_back(const CallRow& row, std::string why);
  void hand_back_queue();
  void begin_round(const CallRow& refused);
  void say(ProcessId caller, ExecutorMessage message);
  void leave_when_done(EndKind kind);
  void say_farewell();
  void try_leave();
  bool object_destroyed();
  void end_in_order();
  bool submitted_done();
  void tell_departing(bool released);
  std::optional<Time> leave_deadline() const;
  void update_lending();
  void update_residence();
  void leave_if_spent();
  bool is_actor() const { return !assignment_.actor.actor.empty(); }
  std::size_t max_running() const;
  void emit(Command command) { out_->push_back(std::move(command)); }

  ExecutorOptions options_;
  AssignExecutor assignment_;
  bool constructed_ = false;  // tasks: from the start; actors: the constructor has returned
  std::uint64_t next_token_ = 1;
  std::int64_t finished_ = 0;
  RanCalls ran_;
  Table<ProcessId, CallerRow> callers_;
  DeadlineHeap<ProcessId> caller_deadlines_;
  Table<std::uint64_t, CallRow> queue_;    // by token, in order of arrival
  Table<std::uint64_t, CallRow> running_;  // likewise, in the order of their starts
  std::size_t beside_ = 0;                 // of those that run, beside the actor's calls
  bool beside_waits_ = false;              // one may be among those that wait
  std::deque<std::pair<Time, RefRecords>> orphans_;  // pinned for callers that have died, until then
  std::vector<ExecutorFrame> frames_;      // that leave; kept for its memory
  std::optional<Time> blocked_since_;  // every running call waits
  bool lent_ = false;
  Residence held_;                   // results of its calls that others may want
  bool holds_said_ = false;          // to the lessee
  Residence residence_said_;         // to the agent
  std::optional<Time> idle_since_;   // nothing runs or waits here, and results are held
  Time residence_told_;
  std::optional<Time> tell_residence_at_;
  std::optional<EndKind> leaving_;  // nothing new starts
  bool farewell_said_ = false;      // StreamRetires sent
  Time leave_by_;
  enum class Object { lives, being_destroyed, destroyed };
  Object object_ = Object::lives;  // state of the actor object
  bool hurries_ = false;           // the job has ended: only destructors are awaited
  enum class Submitted { unknown, asked, pending, done };
  Submitted submitted_ = Submitted::unknown;  // the calls that this process has submitted
  SubmittedPending pending_;                  // the last answer
  std::optional<Time> release_at_;            // pending: the agent gets the resources of the slot then
  enum class Evacuation { due, asked, over };
  Evacuation evacuation_ = Evacuation::due;  // of a planned end
  Time evacuate_by_;
  bool left_ = false;

  Time now_;
  std::vector<Command>* out_ = nullptr;
};

}  // namespace mobula::internal::executor
