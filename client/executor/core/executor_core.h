// Decides for one slot generation or one actor incarnation: the next call to run, calls to return,
// the release of the CPU of blocked calls, residence of results, and exit.
// Thread: owner, under the lock of the process's runtime.
// Not: running user code (shell), values (they are stored and described before), submitted calls
// (ClientCore).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/containers/copy_on_write.h"
#include "base/containers/deadline_heap.h"
#include "base/containers/queue.h"
#include "base/containers/ring_buffer.h"
#include "base/containers/table.h"
#include "base/time.h"
#include "client/executor/core/call_groups.h"
#include "client/executor/core/executor_commands.h"
#include "client/executor/core/executor_events.h"
#include "client/executor/core/executor_options.h"
#include "client/executor/core/item_windows.h"
#include "protocol/session/session.h"

namespace mobula::internal::executor {

// A call that ran here, for timelines.
struct RanCallSpan {
  TaskId task;
  CopyOnWrite<CallForm> form;
  Time began;
  Time ended;
  bool failed = false;
};
using RanCalls = RingBuffer<RanCallSpan, 4096>;

class ExecutorCore {
 public:
  using Options = ExecutorOptions;
  using Event = executor::Event;
  using Command = executor::Command;

  explicit ExecutorCore(ExecutorOptions options = {}) : options_(options) {}

  void step(Time now, Event event, std::vector<Command>& out) { consume(now, event, out); }
  // The same without a copy of the event, whose parts are moved from afterwards.
  void consume(Time now, Event& event, std::vector<Command>& out);
  std::optional<Time> next_deadline() const;

  std::size_t queued() const { return queue_.size(); }
  std::size_t running() const { return running_.size(); }
  bool leaving() const { return leaving_.has_value(); }
  const RanCalls& ran() const { return ran_; }
  const ItemWindows& items() const { return items_; }

 private:
  struct CallerRow {
    Session<ExecutorMessage, CallerMessage> session;
    ProcessId agent;                // see CallerAdmitted
    std::uint64_t last_number = 0;  // highest call number received
    std::uint64_t round = 1;        // one more than the count of refused calls
    // By group: its calls of earlier rounds are returned. Grows with the first refused call.
    std::vector<std::uint64_t> first_rounds;
    bool knows_rounds = false;
    std::optional<Time> armed;  // see DeadlineHeap
    // True until the caller sends a call, and after it has released its last handle: it sends no
    // acknowledgements.
    bool closed = true;
    // Refs in replies and items, by call and ReplyClaimed::item, until the caller holds them.
    PooledMap<std::pair<std::uint64_t, std::uint64_t>, RefRecords> pinned;
  };
  struct CallRow {
    std::uint64_t token = 0;
    std::uint32_t group = 0;
    ProcessId caller;  // empty: the constructor
    std::uint64_t number = 0;
    CallRecord call;
    bool ready = false;  // the arguments are available
    bool blocked = false;
    bool cancelled = false;
    bool cut = false;             // cancelled because it outlasted exit_actor
    std::string over_share{};     // message of the error that ends it
    Time started;                 // set when running
    bool start_reported = false;  // the caller was notified, or none exists
  };

  void on(const Assigned& event);
  void on(ReceivedFromCaller& event);
  void on(const CallerAdmitted& event);
  void on(const CallerGone& event);
  void on(const ArgumentsFetched& event);
  void on(CallFinished& event);
  void on(const CallBlocked& event);
  void on(const EndRequested& event);
  void on(const Tick& event);
  void on(const Evacuated&) { evacuation_ = Evacuation::over; }
  void on(const ResultsHeld& event);
  void on(const ShareExceeded& event);
  void on(const SubmittedPending& event);
  void on(const ActorDestroyed&) { object_ = Object::destroyed; }
  void on(const SubmittedDone&) { submitted_ = Submitted::done; }
  void on(const NameReleased&) { name_released(); }
  void on(ItemGiven& event);
  void on(ProcessId caller, PushCall& message);
  void on(ProcessId caller, CancelCall& message);
  void on(ProcessId caller, ReturnCallsRequest& message);
  void on(ProcessId caller, ReplyClaimed& message);
  void on(ProcessId caller, ItemsTaken& message);

  void drop_caller(ProcessId id);
  using QueuePosition = Table<std::uint64_t, CallRow>::iterator;
  void admit(CallRow&& row);
  void refuse_group(const CallRow& row);
  // Removes the call, and advances the position.
  CallRow take_queued(QueuePosition& at);
  void start_ready();
  void start_beside();
  void start(CallRow row);
  CallRow take_running(std::uint64_t token);
  void set_blocked(CallRow& row, bool on);
  void tell_started();
  bool accepts_calls() const;
  void reply(const CallRow& row, CallReply&& reply);
  void hand_back(const CallRow& row, std::string why);
  void hand_back_queue();
  // Without a group: in all groups.
  void begin_round(const CallRow& refused, std::optional<std::uint32_t> group);
  static bool is_round_over(const CallerRow& caller, std::uint64_t round, std::uint32_t group);
  void say(ProcessId caller, ExecutorMessage&& message);
  void release_name();
  void name_released();
  void request_release();
  void leave_when_done(EndKind kind);
  void say_farewell();
  void try_leave();
  bool object_destroyed();
  void cut_calls();
  ValueRecord cut_error(const CallRow& row) const;
  void end_in_order();
  bool submitted_done();
  void tell_departing(bool released);
  std::optional<Time> leave_deadline() const;
  void update_lending();
  void update_residence();
  void leave_if_spent();
  bool is_actor() const { return !assignment_.actor.actor.empty(); }
  template <class Each>
  void emit(Each&& command) {
    out_->emplace_back(std::forward<Each>(command));
  }

  ExecutorOptions options_;
  AssignExecutor assignment_;
  bool constructed_ = false;  // always true for tasks; for actors after the constructor returned
  std::uint64_t next_token_ = 1;
  std::int64_t finished_ = 0;
  RanCalls ran_;
  Table<ProcessId, CallerRow> callers_;
  DeadlineHeap<ProcessId> caller_deadlines_;
  CallGroups groups_;
  Table<std::uint64_t, CallRow> queue_;    // by token, in order of arrival
  Table<std::uint64_t, CallRow> running_;  // by token, in order of start
  ItemWindows items_;                      // of running streaming calls
  std::size_t beside_ = 0;                 // count of running calls outside the actor's order
  std::size_t blocked_ = 0;                // count of other running calls that are blocked
  // Started calls, oldest first, whose start is not reported.
  Queue<std::pair<std::uint64_t, Time>> unreported_;
  bool beside_waits_ = false;                        // such a call may be queued
  std::deque<std::pair<Time, RefRecords>> orphans_;  // refs pinned for dead callers, by end
  std::vector<ExecutorFrame> frames_;  // outgoing frames; member only to reuse its memory
  std::optional<Time> blocked_since_;  // set while every running call waits
  bool lent_ = false;
  ResidentResults held_;            // results of its calls that other processes may need
  bool holds_said_ = false;         // state reported to the lessee
  ResidentResults residence_said_;  // state reported to the agent
  std::optional<Time> idle_since_;  // set while no call runs or waits here, and results are held
  Time residence_reported_at_;
  std::optional<Time> tell_residence_at_;
  std::optional<EndKind> leaving_;  // set: no further call starts
  bool farewell_said_ = false;      // StreamClosing was sent
  Time leave_by_;
  enum class Object { lives, being_destroyed, overdue, destroyed };
  Object object_ = Object::lives;  // state of the actor object
  std::optional<Time> cut_at_;     // after exit_actor: end of the wait for running calls
  bool cutting_ = false;           // those calls are cancelled
  std::uint64_t cut_calls_ = 0;    // count of calls that did not end despite this
  Time destroy_by_;                // being_destroyed: end of the wait for the destructor
  bool hurries_ = false;           // the job has ended: only destructors are awaited
  enum class Submitted { unknown, requested, pending, done };
  Submitted submitted_ = Submitted::unknown;  // state of the calls that this process has submitted
  SubmittedPending pending_;                  // the latest reply
  std::optional<Time> release_at_;            // pending: time to release the slot's resources
  enum class Evacuation { due, requested, over };
  Evacuation evacuation_ = Evacuation::due;  // state of the evacuation before a planned exit
  Time evacuate_by_;
  bool left_ = false;
  // Set while the head takes the name from an actor that called exit_actor.
  struct NameRelease {
    Time until;
    Time request_at;  // time of the next request
  };
  std::optional<NameRelease> name_release_;
  std::vector<std::pair<ProcessId, CallReply>> withheld_;  // replies until then

  Time now_;
  std::vector<Command>* out_ = nullptr;
};

}  // namespace mobula::internal::executor
