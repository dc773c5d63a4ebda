// Decides about the work that a process submits: slots for tasks, ends of executors, and readers of
// objects. Owns the tasks and objects of its process.
// Thread: owner; drivers and executors step it under the lock of ProcessEngine.
// Not: running tasks (ExecutorCore), placement (head), bytes (shell).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/model/error_record.h"
#include "base/time.h"
#include "client/core/client_commands.h"
#include "client/core/client_events.h"
#include "client/core/client_options.h"
#include "client/core/refs/lineage.h"
#include "client/core/tables.h"

namespace mobula::internal::client {

class ClientCore : ClientTables {
 public:
  using Options = ClientOptions;
  using Event = client::Event;
  using Command = client::Command;

  explicit ClientCore(ClientOptions options) : ClientTables(std::move(options)) {}

  void step(Time now, Event event, std::vector<Command>& out);
  // Fast paths of RetainRef, ReleaseRef, WantObject and UnwantObject: they only count.
  // False: nothing changed, because the event may have consequences and needs a step.
  bool retain_quietly(ObjectId object);
  bool release_quietly(ObjectId object);
  bool want_quietly(ObjectId object);
  bool unwant_quietly(ObjectId object);
  std::optional<Time> next_deadline() const;
  bool deadlines_are_exact() const;  // for tests; walks over all rows

  // ---- queries; pointers are valid until the next step ------------------------------------------
  const ObjectRow* object(ObjectId object) const;
  // The object as other processes refer to it. The object must be known here.
  RefRecord ref_of(ObjectId object) const;
  // True if a thread need not wait for the value: it is available, or it never will be.
  bool settled(ObjectId object) const;
  bool is_actor_call(ObjectId result) const;  // an unfinished one
  // True if user code of this process has a ref to a value that contains this object.
  bool refers_to(ObjectId object) const;
  const ActorRow* actor(ActorId actor) const { return actors_.find(actor); }
  bool knows_class(ClassId demand_class) const { return classes_.contains(demand_class); }
  const OwnedCalls& owned_calls() const { return owned_calls_; }
  std::int64_t pending_bytes() const { return pending_bytes_; }
  std::int64_t lineage_bytes() const { return lineage_.bytes(); }
  std::int64_t pending_calls(ActorId actor) const;
  // True while the home has not confirmed the hold on one of `refs` that is still in use here.
  bool holds_unconfirmed(const RefRecords& refs) const;
  // True while a value among `refs` that other processes may request is not stored yet.
  bool storing(const RefRecords& refs) const;
  std::vector<ObjectId> held(const RefRecords& refs) const;
  std::vector<ObjectId> passed_on(const RefRecords& refs) const;  // borrowed, and sent from here
  std::string why_pending(Time now, ObjectId object) const;       // human-readable
  bool is_unread(ObjectId object) const;  // true for an error that no code has read yet
  std::string unread_errors() const { return unread_.report(); }
  // The latest failures that the head does not know, for a process that ends. `request` is 0.
  FailureReport unreported_failures() const;
  bool writing() const { return !writes_.empty(); }
  bool is_quiet(ProcessId executor) const;  // no call, reply, or acknowledgement is pending
  using Unfinished = UnfinishedWork;
  Unfinished unfinished() const;
  bool empty() const;
  using Sizes = TableSizes;
  Sizes sizes() const;
  const ClientOptions& options() const { return options_; }
  NodeId node() const { return node_; }

 private:
  friend class TaskReader;
  // events
  void on(SubmitTask& event);
  void on(const SubmitActor& event);
  void on(SubmitActorCall& event);
  void on(PutInline& event);
  void on(const KeepTensor& event);
  void on(const ElementsLost& event);
  void on(const ReserveRoom& event);
  void on(const AbandonWrite& event);
  void on(const ValueWritten& event);
  void on(const ValueUnreadable& event);
  void on(const RetainRef& event);
  void on(const ReleaseRef& event);
  void on(const AdoptRef& event);
  void on(const WantObject& event);
  void on(const UnwantObject& event);
  void on(const CancelObject& event);
  void on(const CancelChildren& event);
  void on(const ErrorRead& event);
  void on(const BlockedOn& event) { blocked_on_ = event.objects; }
  void on(const KillActor& event);
  void on(const AskHead& event);
  void on(const SubmitGroup& event);
  void on(const AwaitGroup& event);
  void on(const EndGroup& event);
  void on(const PinRefs& event);
  void on(const UnpinRefs& event);
  void on(const BorrowRefs& event);
  void on(const EndBorrow& event);
  void on(const HandOver& event);
  void on(const AwaitSubmitted&) { awaits_submitted_ = true; }
  void on(const Attached& event);
  void on(const AgentLost& event);
  void on(const ReceivedFromAgent& event);
  void on(ReceivedFromExecutor& event);
  void on(const StreamEnded& event);
  void on(const Tick& event);
  // messages of the agent
  void heard(const FromHead& message);
  void heard(const ReserveObjectReply& message);
  void heard(const SealObjectReply& message);
  void heard(const HoldObjectReply& message);
  void heard(const FetchObjectReply& message);
  void heard(const UnpinRequest& message);
  void heard(const ExportReleased& message);
  void heard(const ObjectGone& message);
  void heard(const HeadStatus& message);
  void heard(const PeersDead& message);
  template <class Other>
  void heard(const Other&) {}
  // messages of the head
  void head_says(const StartJobReply& message);
  void head_says(const SlotReady& message);
  void head_says(const GenerationEnded& message);
  void head_says(const SlotLost& message);
  void head_says(const RecallSlot& message);
  void head_says(const DemandPlanned& message);
  void head_says(const DemandInfeasible& message);
  void head_says(const ActorChanged& message);
  void head_says(const FindActorReply& message);
  template <class ForShell>
  void head_says(const ForShell& message) {
    emit(HeadAnswered{message});
  }
  void head_says(const RequestRejected& message);
  void head_says(const GroupChanged& message);
  void head_says(const TasksRequest& message);
  // messages of executors
  void executor_says(ProcessId executor, CallReply message);
  void executor_says(ProcessId executor, CallReturned message);
  void executor_says(ProcessId executor, CallStarted message);
  void executor_says(ProcessId executor, StreamClosing message);
  void executor_says(ProcessId executor, ResidentStateChanged message);

  ObjectRow& own_object(ObjectId object, TaskId creator);  // objects.cc
  ObjectRow& borrow(const RefRecord& ref);
  bool has_home(const ObjectRow& row) const;
  void ensure_hold(ObjectId object, ObjectRow& row);
  void escape(ObjectId object);
  void export_own(ObjectId object);
  void escape_contained(const ValueRecord& value);
  void complete(ObjectId object, ValueRecord value);
  void fail_object(ObjectId object, ErrorRecord error);
  void pin(const RefRecord& ref);
  void unpin(ObjectId object);
  void drop_if_unused(ObjectId object);
  void drop_one(ObjectId object);
  void erase_object(ObjectId object);
  void lose_store();
  void unshare();
  void fetch(ObjectId object, ObjectRow& row, bool argument = false);
  void return_place(ObjectId object, ObjectRow& row);
  void changed(ObjectId object) { emit(ObjectChanged{object}); }
  void content_settled(ObjectId object, bool held);
  void hold_contents(ProcessId executor, std::uint64_t number, const RefRecords& refs);
  void reconstruct(ObjectId object, const std::string& cause);

  void store_inline(ObjectId object, ObjectRow& row);  // store_writes.cc
  void store_again(ObjectId object, ObjectRow& row);

  void lenders_died();  // loans.cc
  void forget_loan(ObjectId object, const ObjectRow& row);
  void keep_lent(const StreamRow& stream);
  void put_off_hold(ObjectId object, ObjectRow& row);
  void hold_now(ObjectId object);
  void put_off_export(ObjectId object, ObjectRow& row);
  void export_now(ObjectId object, ObjectRow& row);
  void reply_settled(ObjectId object, bool unheld);
  void tick_loans();
  void forget_settled_loans();

  std::size_t count_missing(const Arguments& arguments);  // tasks.cc
  void argument_ready(ObjectId object);
  void serve_waiters(ObjectId object);
  void task_ready(TaskId task);
  bool fail_on_argument_errors(TaskId task);
  CallRecord resolved(const CallRecord& call);
  void finish(TaskId task, Results results);
  void note_error(TaskId task, const TaskRow& row, const Results& results);
  void report_failures();
  void remember_end(TaskId task, const TaskRow& row, const Results& results);
  void finish_with_error(TaskId task, ErrorRecord error);
  void finish_cancelled(TaskId task);
  void attempt_failed(TaskId task, const EndCause& cause);
  void run_again_uncharged(TaskId task);
  void resubmit(TaskId task);
  void resubmit_later(TaskId task);
  void pause_task(TaskId task, Duration pause);
  bool can_run_again(const TaskRow& finished) const;
  void run_again(TaskId finished);
  void tick_retries();
  bool waits_again(TaskId task);  // an argument may have been lost while the task was queued
  TaskRow& add_task(CallRecord call, TaskId parent, std::int64_t stored_bytes);
  void release_arguments(const CallRecord& call);
  void forget_task(TaskId task);
  void cancel_task(TaskId task, bool force, bool recursive);
  void take_over(const Handover& handover);
  std::vector<TaskId> unfinished_tasks_of(const RefRecords& refs);
  Handover give_away(TaskId task, const HandOver& to, HandedOver& given);

  // unread_arguments.cc
  void call_did_not_run(TaskId task, CallReply& message);
  bool verify_arguments(TaskRow& row, const std::vector<ObjectId>& unread);
  void end_doubt(ObjectId object);
  bool await_owner(TaskId task, ObjectId object);
  void return_to_waiting(TaskId task);
  std::int64_t lineage_bytes_of(const CallRecord& call) const;
  void keep_as_lineage(TaskId task);
  void give_up_lineage(TaskId task);
  void remake_elements(ObjectId elements);
  bool refers_to_any(const CallRecord& call, const std::vector<ObjectId>& elements) const;

  void join_queue(TaskId task, const TaskRow& row);  // queues.cc
  void leave_queue(TaskId task, ClassId demand_class);
  void refill(ClassRow& demand);
  void expand(CompactQueue::Expanded small);
  void make_children_whole(TaskId parent);
  ObjectRow* find_object(ObjectId object);  // expands the row if needed; null if unknown
  void fail_queued(ClassId demand_class, ErrorKind kind, const std::string& why,
                   const std::string& resource = {});

  void want(ClassId demand_class);  // slots.cc
  void tell_demand(ClassRow& row);
  void dispatch(ClassId demand_class);
  bool dispatch_next(ClassRow& row, bool idle_only);
  std::size_t pipeline_depth(const ClassRow& row) const;
  std::optional<SlotId> best_slot(const ClassRow& row, const TaskRow& task, bool idle_only) const;
  void push(TaskId task, StreamRow& stream, ProcessId executor);
  void preempt(const RecallSlot& message, StreamRow& stream);
  void return_slot(SlotId slot);
  void return_idle_devices(ClassId except);
  void forget_slot(SlotId slot);
  void slot_idle(SlotId slot);
  void take_back_stuck(const ClassRow& row);
  StreamRow& open_stream(const Endpoint& endpoint);
  void close_stream(ProcessId executor);
  void end_stream(ProcessId executor, EndCause cause);
  void requeue(TaskId task);
  void call_left_stream(StreamRow& stream, std::uint64_t number);
  void tick_slots();
  void tick_streams();
  void tick_writes();
  void give_up_executor(ProcessId executor);
  void fail_rejected_calls(ProcessId executor, const std::string& why);
  void conclude_stream(ProcessId executor);
  void conclude_task_stream(StreamRow& stream, const EndCause& cause);
  void conclude_actor_stream(StreamRow& stream, const EndCause& cause);
  void send_frames(StreamRow& stream, std::span<CallerFrame> frames);
  void send_acknowledgement(StreamRow& stream);
  void say(StreamRow& stream, CallerMessage message);
  void watch(StreamRow& stream) {
    stream_deadlines_.watch(stream.endpoint.process, stream.deadline(), stream.armed);
  }

  void ask_for_actor(ActorId actor);  // actors.cc
  void watch_actor(ActorId actor);
  bool asks_again(const FindActorReply& message);
  void advance_actor(ActorId actor);
  void end_wait_for_returns(ProcessId executor);
  std::string why_nothing_leaves(const ActorRow& actor) const;  // empty if calls may leave
  void actor_died(ActorId actor);
  void constructor_over(ActorRow& actor);
  void fail_actor_calls(ActorId actor);
  void call_over(ActorId actor);
  void end_actor(EndActor end);
  void forget_actor(ActorId actor);

  bool has_unfinished() const;  // planned_end.cc
  static bool is_acknowledged(const ActorRow& actor);
  void conclude_submitted();
  void entrust_actors();

  void restate_groups();  // groups.cc
  std::string why_group_pending(ObjectId object) const;
  void end_groups(const std::string& why);
  void restate();
  void emit(Command command) { out_->push_back(std::move(command)); }
  void tell_agent(ProcessToAgent message) { emit(SendToAgent{std::move(message)}); }
  void tell_head(ProcessToHead message) { tell_agent(ForHead{std::move(message)}); }
};

}  // namespace mobula::internal::client
