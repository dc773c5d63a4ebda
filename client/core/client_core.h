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
#include "client/core/refs/object_refs.h"
#include "client/core/tables.h"

namespace mobula::internal::client {

class ClientCore final : ClientTables,
                         CallStreams::Port,
                         ObjectRefs::Port,
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
  bool retain_quietly(ObjectId object) { return objects_.retain_quietly(object); }
  bool release_quietly(ObjectId object) { return objects_.release_quietly(object); }
  bool want_quietly(ObjectId object) { return objects_.want_quietly(object); }
  bool unwant_quietly(ObjectId object) { return objects_.unwant_quietly(object); }
  std::optional<Time> next_deadline() const;
  bool deadlines_are_exact() const;  // for tests; walks over all rows
  // Count of rows of classes and slots that steps have visited, for tests of the cost of a step.
  std::uint64_t visited_rows() const { return dispatcher_.visited_rows(); }

  // ---- queries; pointers are valid until the next step ------------------------------------------
  const ObjectRow* object(ObjectId id) const { return objects_.object(id); }
  // The object as other processes refer to it. The object must be known here.
  RefRecord ref_of(ObjectId object) const { return objects_.ref_of(object); }
  // True if a thread need not wait for the value: it is available, or it never will be.
  bool settled(ObjectId object) const { return objects_.settled(object); }
  bool is_actor_call(ObjectId result) const;  // an unfinished one
  // True if user code of this process has a ref to a value that contains this object.
  bool refers_to(ObjectId object) const { return objects_.refers_to(object); }
  const ActorRow* actor(ActorId actor) const { return actors_.find(actor); }
  bool knows_class(ClassId demand_class) const { return dispatcher_.find(demand_class) != nullptr; }
  const OwnedCalls& owned_calls() const { return ends_.calls(); }
  std::int64_t pending_bytes() const { return pending_bytes_; }
  std::int64_t lineage_bytes() const { return lineage_.bytes(); }
  std::int64_t pending_calls(ActorId actor) const;
  // True while the home has not confirmed the hold on one of `refs` that is still in use here.
  bool holds_unconfirmed(const RefRecords& refs) const { return objects_.holds_unconfirmed(refs); }
  // True while a value among `refs` that other processes may request is not stored yet.
  bool storing(const RefRecords& refs) const { return objects_.storing(refs); }
  std::vector<ObjectId> held(const RefRecords& refs) const { return objects_.held(refs); }
  // Refs that are borrowed, and were sent from here.
  std::vector<ObjectId> passed_on(const RefRecords& refs) const { return objects_.passed_on(refs); }
  std::string why_pending(Time now, ObjectId object) const;  // human-readable
  // True for an error that no code has read yet.
  bool is_unread(ObjectId object) const { return objects_.is_unread(object); }
  std::string unread_errors() const { return ends_.unread_errors(); }
  // The latest failures that the head does not know, for a process that ends. `request` is 0.
  FailureReport unreported_failures() const { return ends_.unreported_failures(); }
  bool writing() const { return objects_.writes() > 0; }
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
  void on(PutInline& event) { objects_.on(event); }
  void on(const KeepTensor& event) { objects_.on(event); }
  void on(const ElementsLost& event);
  void on(const ReserveRoom& event) { objects_.on(event); }
  void on(const AbandonWrite& event) { objects_.on(event); }
  void on(const ValueWritten& event) { objects_.on(event); }
  void on(const ValueUnreadable& event) { objects_.on(event); }
  void on(const RetainRef& event) { objects_.on(event); }
  void on(const ReleaseRef& event) { objects_.on(event); }
  void on(const AdoptRef& event) { objects_.on(event); }
  void on(const WantObject& event) { objects_.on(event); }
  void on(const UnwantObject& event) { objects_.on(event); }
  void on(const CancelObject& event);
  void on(const CancelChildren& event);
  void on(const ErrorRead& event) { objects_.on(event); }
  void on(const BlockedOn& event) { blocked_on_ = event.objects; }
  void on(const KillActor& event) { actors_.on(event); }
  void on(const AskHead& event) { actors_.on(event); }
  void on(const SubmitGroup& event) { groups_.on(event); }
  void on(const AwaitGroup& event) { groups_.on(event); }
  void on(const EndGroup& event) { groups_.on(event); }
  void on(const PinRefs& event) { objects_.on(event); }
  void on(const UnpinRefs& event) { objects_.on(event); }
  void on(const BorrowRefs& event) { objects_.on(event); }
  void on(const EndBorrow& event) { objects_.on(event); }
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
  void heard(const ReserveObjectReply& message) { objects_.on(message); }
  void heard(const SealObjectReply& message) { objects_.on(message); }
  void heard(const HoldObjectReply& message) { objects_.on(message); }
  void heard(const FetchObjectReply& message) { objects_.on(message); }
  void heard(const UnpinRequest& message) { objects_.on(message); }
  void heard(const ExportReleased& message) { objects_.on(message); }
  void heard(const ObjectGone& message) { objects_.on(message); }
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

  // ObjectRefs::Port
  bool can_run_again(const TaskRow& finished) const override;
  void run_again(TaskId finished) override;
  void result_dropped(TaskId creator) override;
  void watch_actor(ActorId actor) override { actors_.watch(actor); }
  void forget_actor(ActorId actor) override { actors_.forget(actor); }
  CompactQueue& compact() override { return dispatcher_.compact(); }
  const CompactQueue& compact() const override { return dispatcher_.compact(); }
  void expand_result(ObjectId object) override { dispatcher_.expand_result(object); }
  void argument_ready(ObjectId object) override;
  std::size_t count_missing(const Arguments& arguments);  // tasks.cc
  // Actors::Port
  void own_handle(ActorId actor, bool is_detached) override;
  void unpin(ObjectId object) override { objects_.unpin(object); }
  bool is_exported(ObjectId object) const override;
  void pin_arguments(const CallRecord& constructor) override;
  std::vector<ObjectId> missing_arguments(const Arguments& arguments) override;
  const ValueRecord* argument_error(const CallRecord& constructor) const override;
  CallRecord sendable_constructor(const CallRecord& constructor) override;
  void count_pending_bytes(std::int64_t change) override { pending_bytes_ += change; }
  void return_idle_devices(ClassId except) override { dispatcher_.return_idle_devices(except); }
  TaskRow& task_row(TaskId task) override { return tasks_.at(task); }
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
  bool await_owner(TaskId task, ObjectId object);
  void return_to_waiting(TaskId task);

  std::int64_t lineage_bytes_of(const CallRecord& call) const;
  void keep_as_lineage(TaskId task);
  void give_up_lineage(TaskId task);
  void remake_elements(ObjectId elements);
  bool refers_to_any(const CallRecord& call, const std::vector<ObjectId>& elements) const;

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
  ObjectRefs objects_{step_, ends_, streams_, *this};
  Dispatcher dispatcher_{step_, streams_, *this};
  Actors actors_{step_, streams_, *this};
  PlacementGroups groups_{step_, objects_};
};

}  // namespace mobula::internal::client
