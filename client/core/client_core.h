// Decides about the work that a process submits: slots for tasks, ends of executors, and readers of
// objects. Owns the tasks and objects of its process.
// Thread: owner; drivers and executors step it under the lock of ProcessEngine.
// Not: running tasks (ExecutorCore), placement (head), bytes (shell).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/model/error_record.h"
#include "base/time.h"
#include "client/core/calls/actors.h"
#include "client/core/calls/call_streams.h"
#include "client/core/calls/dispatcher.h"
#include "client/core/calls/placement_groups.h"
#include "client/core/client_commands.h"
#include "client/core/client_events.h"
#include "client/core/client_options.h"
#include "client/core/refs/lineage.h"
#include "client/core/tables.h"

namespace mobula::internal::client {

class ClientCore final : ClientTables,
                         PlacementGroups::Port,
                         CallStreams::Port,
                         Actors::Port,
                         Dispatcher::Port {
 public:
  using Options = ClientOptions;
  using Event = client::Event;
  using Command = client::Command;

  explicit ClientCore(ClientOptions options) : ClientTables(std::move(options)) {}

  ClientCore(const ClientCore&) = delete;  // its components refer to each other
  ClientCore& operator=(const ClientCore&) = delete;

  void step(Time now, Event event, std::vector<Command>& out);
  // Fast paths of RetainRef, ReleaseRef, WantObject and UnwantObject: they only count.
  // False: nothing changed, because the event may have consequences and needs a step.
  bool retain_quietly(ObjectId object);
  bool release_quietly(ObjectId object);
  bool want_quietly(ObjectId object);
  bool unwant_quietly(ObjectId object);
  std::optional<Time> next_deadline() const;
  bool deadlines_are_exact() const;  // for tests; walks over all rows
  // Count of rows of classes and slots that steps have visited, for tests of the cost of a step.
  std::uint64_t visited_rows() const { return dispatcher_.visited_rows(); }

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
  bool knows_class(ClassId demand_class) const { return dispatcher_.find(demand_class) != nullptr; }
  const OwnedCalls& owned_calls() const { return ends_.calls(); }
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
  std::string unread_errors() const { return ends_.unread_errors(); }
  // The latest failures that the head does not know, for a process that ends. `request` is 0.
  FailureReport unreported_failures() const { return ends_.unreported_failures(); }
  bool writing() const { return !writes_.empty(); }
  bool is_quiet(ProcessId executor) const { return streams_.is_quiet(executor); }
  using Unfinished = UnfinishedWork;
  Unfinished unfinished() const;
  bool empty() const;
  using Sizes = TableSizes;
  Sizes sizes() const;
  const ClientOptions& options() const { return step_.options(); }
  NodeId node() const { return step_.node(); }

 private:
  friend class TaskReader;
  // events
  void on(SubmitTask& event);
  void on(const SubmitActor& event) { actors_.on(event); }
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
  void on(const KillActor& event) { actors_.on(event); }
  void on(const AskHead& event) { actors_.on(event); }
  void on(const SubmitGroup& event) { groups_.on(event); }
  void on(const AwaitGroup& event) { groups_.on(event); }
  void on(const EndGroup& event) { groups_.on(event); }
  void on(const PinRefs& event);
  void on(const UnpinRefs& event);
  void on(const BorrowRefs& event);
  void on(const EndBorrow& event);
  void on(const HandOver& event);
  void on(const AwaitSubmitted&) { awaits_submitted_ = true; }
  void on(const Attached& event);
  void on(const AgentLost& event);
  void on(const ReceivedFromAgent& event);
  void on(ReceivedFromExecutor& event) { streams_.receive(event); }
  void on(const StreamEnded& event) { streams_.on(event); }
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
  void head_says(const SlotReady& message) { dispatcher_.on(message); }
  void head_says(const GenerationEnded& message) { dispatcher_.on(message); }
  void head_says(const SlotLost& message) { dispatcher_.on(message); }
  void head_says(const RecallSlot& message) { dispatcher_.on(message); }
  void head_says(const DemandPlanned& message) { dispatcher_.on(message); }
  void head_says(const DemandInfeasible& message) {
    message.actor.empty() ? dispatcher_.on(message) : actors_.on(message);
  }
  void head_says(const ActorChanged& message) { actors_.on(message); }
  void head_says(const FindActorReply& message) { actors_.on(message); }
  template <class ForShell>
  void head_says(const ForShell& message) {
    step_.emit(HeadAnswered{message});
  }
  void head_says(const RequestRejected& message);
  void head_says(const GroupChanged& message) { groups_.on(message); }
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
  void own_result(ObjectId object) override { own_object(object, TaskId()); }
  void complete(ObjectId object, ValueRecord value) override;
  void fail_object(ObjectId object, ErrorRecord error) override;
  void pin(const RefRecord& ref);
  void unpin(ObjectId object) override;
  void drop_if_unused(ObjectId object);
  void drop_one(ObjectId object);
  void erase_object(ObjectId object);
  void lose_store();
  void unshare();
  void fetch(ObjectId object, ObjectRow& row, bool argument = false);
  void return_place(ObjectId object, ObjectRow& row);
  void changed(ObjectId object) { step_.emit(ObjectChanged{object}); }
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
  // Actors::Port
  void own_handle(ActorId actor, bool is_detached) override;
  bool is_exported(ObjectId object) const override;
  void pin_arguments(const CallRecord& constructor) override;
  std::vector<ObjectId> missing_arguments(const Arguments& arguments) override;
  const ValueRecord* argument_error(const CallRecord& constructor) const override;
  CallRecord sendable_constructor(const CallRecord& constructor) override;
  void count_pending_bytes(std::int64_t change) override { pending_bytes_ += change; }
  void return_idle_devices(ClassId except) override { dispatcher_.return_idle_devices(except); }
  TaskRow& task_row(TaskId task) override { return tasks_.at(task); }
  void argument_ready(ObjectId object);
  void serve_waiters(ObjectId object);
  void task_ready(TaskId task);
  bool fail_on_argument_errors(TaskId task) override;
  CallRecord resolved(const CallRecord& call);
  void finish(TaskId task, Results results);
  void finish_with_error(TaskId task, ErrorRecord error) override;
  void finish_cancelled(TaskId task) override;
  void attempt_failed(TaskId task, const EndCause& cause);
  void run_again_uncharged(TaskId task);
  void resubmit(TaskId task);
  void resubmit_later(TaskId task);
  void pause_task(TaskId task, Duration pause);
  bool can_run_again(const TaskRow& finished) const;
  void run_again(TaskId finished);
  void tick_retries();
  bool waits_again(
      TaskId task) override;  // an argument may have been lost while the task was queued
  TaskRow& add_task(CallRecord call, TaskId parent, std::int64_t stored_bytes);
  void release_arguments(const CallRecord& call) override;
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

  ObjectRow* find_object(ObjectId object);  // expands the row if needed; null if unknown
  // Dispatcher::Port
  const TaskRow* find_task(TaskId task) const override { return tasks_.find(task); }
  const ObjectRow* object_row(ObjectId object) const override { return objects_.find(object); }
  void push(TaskId task, StreamRow& stream, ProcessId executor) override;
  bool retries_due() const override {
    return !retries_.empty() && retries_.begin()->first <= step_.now();
  }
  std::optional<ResultCounts> plain_result(ObjectId result) const override;
  void erase_rows(TaskId task, ObjectId result) override;
  void add_rows(CompactQueue::Expanded task) override;
  void requeue(TaskId task) override;
  void tick_writes();
  void fail_rejected_calls(ProcessId executor, const std::string& why);
  // CallStreams::Port
  void received(ProcessId executor, ExecutorMessage message) override;
  void call_left(const StreamRow& stream, TaskId task) override;
  void concluded(StreamRow& stream) override;
  void unreachable(ProcessId executor) override;
  void may_send(ActorId actor) override { actors_.advance(actor); }
  void reply_claimed(const StreamRow& stream) override { dispatcher_.slot_changed(stream.slot); }
  bool awaits_report(const StreamRow& stream) const override {
    return dispatcher_.holds_results(stream);
  }
  void conclude_task_stream(StreamRow& stream, const EndCause& cause);
  bool has_unfinished() const;  // planned_end.cc
  void conclude_submitted();
  void restate();

  CallStreams streams_{step_, *this};
  Dispatcher dispatcher_{step_, streams_, *this};
  Actors actors_{step_, streams_, *this};
  PlacementGroups groups_{step_, *this};
};

}  // namespace mobula::internal::client
