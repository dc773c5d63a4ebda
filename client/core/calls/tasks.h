// Tasks of this process, including calls of actors: arguments, results, retries, and exactly one
// end, which is a value, an error, or a cancellation.
// Thread: owner (one ClientCore).
// Not: queues (Dispatcher, Actors), streams (CallStreams), objects (ObjectRefs). It connects them,
// so it implements their ports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/table.h"
#include "base/containers/work_list.h"
#include "client/core/calls/actors.h"
#include "client/core/calls/dispatch/dispatcher.h"
#include "client/core/calls/streams/call_streams.h"
#include "client/core/calls/streams/item_streams.h"
#include "client/core/calls/task_end_log.h"
#include "client/core/calls/task_waits.h"
#include "client/core/refs/call_arguments.h"
#include "client/core/refs/lineage.h"
#include "client/core/refs/object_refs.h"
#include "client/core/refs/unread_arguments.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class Tasks final : public CallStreams::Port,
                    public ObjectRefs::Port,
                    public Actors::Port,
                    public Dispatcher::Port {
 public:
  using Rows = Table<TaskId, TaskRow>;

  // The components may be constructed later than this one.
  Tasks(StepContext& step, TaskEndLog& ends, CallStreams& streams, ObjectRefs& objects,
        Dispatcher& dispatcher, Actors& actors)
      : step_(step),
        ends_(ends),
        streams_(streams),
        objects_(objects),
        dispatcher_(dispatcher),
        actors_(actors),
        arguments_(step, objects),
        waits_(step, objects),
        unread_(objects),
        items_(step, objects, streams),
        lineage_(step.options().max_lineage_bytes, objects) {}
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  void on(SubmitTask& event);
  void on(SubmitActorCall& event);
  void on(const CancelObject& event);
  void on(const CancelChildren& event);
  void on(const ElementsLost& event);
  void on(const HandOver& event);
  // Progress of the readers in other processes. The agent may belong to the previous release.
  void on(const ReadersMoved& message) { items_.on(message); }
  void set_readers_reported(bool reported) { items_.set_readers_reported(reported); }
  void forget_readers() { items_.forget_readers(); }
  // The head published the death of the process.
  void remember_death(ProcessId process) { unread_.remember_death(process); }
  // Queues the tasks whose backoff is over.
  void tick();
  // After a step that dropped objects of streams.
  bool streams_touched() const { return items_.any_touched(); }
  void settle_streams();
  // The process exits: no consumer in it reads the streams that it has not passed on.
  void cancel_unshared_streams();
  std::optional<Time> next_deadline() const { return waits_.next_deadline(); }

  const TaskRow* find(TaskId task) const { return rows_.find(task); }
  const Rows& all() const { return rows_; }
  // Bytes of arguments by value of unfinished calls and of constructors that have not run.
  std::int64_t pending_bytes() const { return pending_bytes_; }
  std::int64_t lineage_bytes() const { return lineage_.bytes(); }

 private:
  // ---- CallStreams::Port
  // --------------------------------------------------------------------------
  void received(ProcessId executor, ExecutorMessage&& message) override;
  void call_left(const StreamRow& stream, TaskId task) override;
  void concluded(StreamRow& stream) override;
  void unreachable(ProcessId executor) override;
  void may_send(ActorId actor) override { actors_.advance(actor); }
  void reply_claimed(const StreamRow& stream) override { dispatcher_.slot_changed(stream.slot); }
  bool awaits_report(const StreamRow& stream) const override {
    return dispatcher_.holds_results(stream);
  }
  // ---- ObjectRefs::Port
  // ---------------------------------------------------------------------------
  void argument_ready(ObjectId object) override;
  bool can_run_again(const TaskRow& finished) const override;
  void run_again(TaskId finished) override;
  void result_dropped(TaskId creator) override;
  void stream_used(TaskId creator, ObjectId position, StreamUse use) override;
  void watch_actor(ActorId actor) override { actors_.watch(actor); }
  void forget_actor(ActorId actor) override { actors_.forget(actor); }
  CompactQueue& compact() override { return dispatcher_.compact(); }
  const CompactQueue& compact() const override { return dispatcher_.compact(); }
  void expand_result(ObjectId object) override { dispatcher_.expand_result(object); }
  // ---- Actors::Port
  // -------------------------------------------------------------------------------
  void count_pending_bytes(std::int64_t change) override { pending_bytes_ += change; }
  void requeue(TaskId task) override;
  void finish_cancelled(TaskId task) override;
  void return_idle_devices(ClassId except) override { dispatcher_.return_idle_devices(except); }
  // ---- Dispatcher::Port, and Actors::Port
  // ---------------------------------------------------------
  TaskRow& task_row(TaskId task) override { return rows_.at(task); }
  const TaskRow* find_task(TaskId task) const override { return rows_.find(task); }
  const ObjectRow* object_row(ObjectId object) const override { return objects_.find(object); }
  bool waits_again(TaskId task) override;
  bool fail_on_argument_errors(TaskId task) override;
  void push(TaskId task, StreamRow& stream, ProcessId executor) override;
  void finish_with_error(TaskId task, ErrorRecord error) override;
  bool retries_due() const override { return waits_.any_due(); }
  std::optional<ResultCounts> plain_result(ObjectId result) const override;
  void erase_rows(TaskId task, ObjectId result) override;
  void add_rows(CompactQueue::Expanded task) override;

  // ---- messages of executors
  // ----------------------------------------------------------------------
  void on(ProcessId executor, CallReply&& message);
  void on(ProcessId executor, CallReturned message);
  void on(ProcessId executor, CallStarted message);
  void on(ProcessId executor, StreamClosing message);
  void on(ProcessId executor, ResidentStateChanged message);
  void on(ProcessId executor, ItemYielded message);
  void conclude_task_stream(StreamRow& stream, const EndCause& cause);
  void fail_rejected_calls(ProcessId executor, const std::string& why);

  // ---- one task
  // -----------------------------------------------------------------------------------
  TaskRow& add_task(CallRecord call, TaskId parent, std::int64_t stored_bytes);
  void serve_waiters(ObjectId object);
  void task_ready(TaskId task);
  void finish(TaskId task, Results results);
  void finish_stream(TaskId task, const Results& results);
  void attempt_failed(TaskId task, const EndCause& cause);
  void run_again_uncharged(TaskId task);
  void resubmit(TaskId task);
  void resubmit_later(TaskId task);
  void pause_task(TaskId task, Duration pause);
  void forget_task(TaskId task);
  void cancel_task(TaskId task, bool force, bool recursive);
  void call_did_not_run(TaskId task, CallReply& message);
  void return_to_waiting(TaskId task);

  // lineage.cc
  void keep_as_lineage(TaskId task);
  void give_up_lineage(TaskId task);
  void remake_elements(ObjectId elements);

  // handovers.cc
  void take_over(const Handover& handover);
  std::vector<TaskId> unfinished_tasks_of(const RefRecords& refs);
  Handover give_away(TaskId task, const HandOver& to, HandedOver& given);

  StepContext& step_;
  TaskEndLog& ends_;
  CallStreams& streams_;
  ObjectRefs& objects_;
  Dispatcher& dispatcher_;
  Actors& actors_;
  CallArguments arguments_;
  Rows rows_;
  TaskWaits waits_;
  UnreadArguments unread_;
  ItemStreams items_;
  WorkList<ObjectId> served_;  // objects with waiters
  std::uint64_t submissions_ = 0;
  std::int64_t pending_bytes_ = 0;
  Lineage lineage_;
};

}  // namespace mobula::internal::client
