// Tasks that move to another owner with the refs to their results.
#include <algorithm>
#include <set>

#include "base/coverage_mark.h"
#include "client/core/calls/tasks.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_given_away("client.task_given_away");
const CoverageMark mark_handover("client.task_taken_over");

}  // namespace

// The unfinished tasks that make these objects, preceded by the tasks whose results they need.
std::vector<TaskId> Tasks::unfinished_tasks_of(const RefRecords& refs) {
  std::vector<TaskId> tasks;
  std::set<TaskId> seen;
  struct Visit {
    TaskId task;
    std::size_t next_argument = 0;
  };
  std::vector<Visit> open;
  const auto enter = [&](ObjectId object) {
    const auto* row = objects_.find(object);
    if (row == nullptr || !row->owned || row->ready) return;
    const auto* task = rows_.find(row->creator);
    if (task == nullptr || task->call.form->kind != CallKind::task || task->cancelled) return;
    // Its consumers refer to this process, which finishes it.
    if (task->call.form->stream.window != 0) return;
    // A new owner would run it again. This process finishes it.
    if (task->state == TaskState::sent && task->retries_left == 0) return;
    if (seen.insert(row->creator).second) open.push_back({row->creator});
  };
  for (const auto& ref : refs) {
    if (objects_.find_expanded(ref.object) == nullptr) continue;
    enter(ref.object);
    while (!open.empty()) {
      const TaskId task = open.back().task;
      const auto& arguments = *rows_.at(task).call.arguments;
      const std::size_t next = open.back().next_argument++;
      if (next == arguments.size()) {
        tasks.push_back(task);
        open.pop_back();
      } else if (arguments[next].is_ref) {
        enter(arguments[next].ref.object);
      }
    }
  }
  return tasks;
}

void Tasks::on(const HandOver& event) {
  const std::vector<TaskId> tasks = unfinished_tasks_of(event.refs);
  HandedOver given;
  for (const TaskId task : tasks) given.tasks.push_back(give_away(task, event, given));
  for (const auto& ref : event.refs) {
    const auto* row = objects_.find(ref.object);
    if (row == nullptr || !row->unsaid) objects_.escape(ref.object);
  }
  step_.emit(std::move(given));
}

// A task that was already sent is cancelled. The new owner runs it again, as after the death of an
// executor.
Handover Tasks::give_away(TaskId task, const HandOver& to, HandedOver& given) {
  mark_given_away.hit();
  TaskRow& row = rows_.at(task);
  Handover handover{row.call, dispatcher_.find(row.demand_class)->spec, row.retries_left};
  for (auto& argument : handover.call.arguments.edit()) {
    if (argument.is_ref && objects_.at(argument.ref.object).ready) {
      CallRecord single;
      single.arguments.edit().push_back(argument);
      argument = arguments_.resolved(single).arguments->front();
    }
    const auto refs = argument.is_ref ? RefRecords{argument.ref} : argument.value.contained;
    for (const auto& ref : refs) {
      objects_.escape(ref.object);
      objects_.pin(ref);
      given.pinned.push_back(ref);
    }
  }
  for (std::uint32_t i = 0; i < handover.call.form->num_returns; ++i) {
    const ObjectId object = result_id(task, i);
    given.objects.push_back(object);
    auto* result = objects_.find(object);
    if (result == nullptr) continue;
    if (result->exported) step_.send_to_agent(ReleaseObject{object});
    result->owned = result->exported = result->released = false;
    result->creator = {};
    result->ref = RefRecord{object, to.home, to.owner, {}};
    objects_.changed(object);  // subscriptions request it from the new owner
    if (result->wants > 0) objects_.fetch(object, *result);
  }
  row.call.form.edit().num_returns = 0;
  row.live_results = 0;
  cancel_task(task, false, true);
  return handover;
}

// This process becomes the owner of a task of an exiting executor, because its reply contains the
// results.
void Tasks::take_over(const Handover& handover) {
  if (rows_.contains(handover.call.task)) return;
  mark_handover.hit();
  SubmitTask submit;
  submit.call = handover.call;
  submit.demand_class = handover.demand_class;
  submit.max_retries = handover.retries_left;
  submit.retry_exceptions = handover.call.form->retry_exceptions;
  on(submit);
  for (std::uint32_t i = 0; i < handover.call.form->num_returns; ++i) {
    const ObjectId object = result_id(handover.call.task, i);
    objects_.escape(object);
    --objects_.at(object).refs;  // the value that contains it takes its own ref
  }
}

}  // namespace mobula::internal::client
