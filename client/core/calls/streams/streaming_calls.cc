// Streaming calls: their items, their ends, and their cancellation when no consumer is left. Part
// of Tasks.
#include <utility>
#include <vector>

#include "base/coverage_mark.h"
#include "client/core/calls/reply_contents.h"
#include "client/core/calls/tasks.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_no_consumer("client.stream_without_a_consumer_cancelled");
const CoverageMark mark_rerun("client.stream_run_again_for_lost_items");

}  // namespace

void Tasks::on(ProcessId executor, ItemYielded message) {
  auto& stream = streams_.at(executor);
  const TaskId* found = stream.in_flight.find(message.number);
  if (found == nullptr || *found != message.task) return;
  TaskRow& row = rows_.at(message.task);
  if (row.call.form->stream.window == 0) return;
  const bool of_actor = row.call.form->kind == CallKind::actor_call;
  if (of_actor) objects_.begin_reply(executor);
  RefRecords contents;
  add_contents(contents, message.value);
  for (const auto& handover : message.handovers) {
    take_over(handover);
    add_contents(contents, handover);
  }
  items_.add(rows_.at(message.task), message.index, std::move(message.value));
  if (of_actor) objects_.end_reply();
  objects_.hold_contents({executor, message.number, false, message.index + 1}, contents);
}

// Items that were lost while the call ran are recomputed by a further run.
void Tasks::finish_stream(TaskId task, const Results& results) {
  items_.end(rows_.at(task), results);
  const auto kind = rows_.at(task).call.form->kind;
  if (kind == CallKind::actor_call) actors_.call_over(rows_.at(task).call.form->actor);
  auto* row = rows_.find(task);
  if (row == nullptr) return;  // no object of the stream was in use
  const bool failed = !results.empty() && results.front().is_error;
  if (items_.is_missing_any(task)) {
    if (!failed && can_run_again(*row)) {
      mark_rerun.hit();
      return run_again(task);
    }
    items_.fail_missing(*row, results);
    row = rows_.find(task);
    if (row == nullptr) return;
  }
  if (row->cancelled) {
    for (const ObjectId item : items_.stored_items(task)) objects_.at(item).of_cancelled = true;
  }
  const bool lineage =
      items_.keeps_lineage(task) && row->retries_left != 0 && !row->cancelled && !failed;
  if (!lineage || row->live_results == 0) return forget_task(task);
  keep_as_lineage(task);
}

void Tasks::stream_used(TaskId creator, ObjectId position, StreamUse use) {
  const auto* row = rows_.find(creator);
  if (row == nullptr) return;
  switch (use) {
    case StreamUse::taken: return items_.note_taken(creator, position);
    case StreamUse::passed_on: return items_.note_passed_on(*row);
    case StreamUse::released: return items_.note_dropped(creator);
  }
}

// Streams that other processes read run to their ends, which the owner awaits: without windows.
void Tasks::cancel_unshared_streams() {
  items_.end_windows();
  std::vector<TaskId> unshared;
  for (const auto& [id, row] : rows_) {
    const bool runs = row.call.form->stream.window != 0 && row.state != TaskState::finished;
    if (runs && !row.cancelled && !items_.is_exported(id)) unshared.push_back(id);
  }
  for (const TaskId task : unshared) cancel_task(task, false, true);
}

void Tasks::settle_streams() {
  for (const TaskId task : items_.take_touched()) {
    auto* row = rows_.find(task);
    if (row == nullptr) continue;
    const bool runs = row->state != TaskState::finished && !row->cancelled;
    if (!runs || !items_.is_abandoned(*row)) {
      items_.move_window(*row);
      continue;
    }
    mark_no_consumer.hit();
    cancel_task(task, false, true);
  }
}

}  // namespace mobula::internal::client
