// Queues of demand classes: tasks near their turn have rows, and later ones are compact
// (compact_queue.h).
#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "client/core/calls/dispatch/dispatcher.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_kept_small("client.task_kept_small");
const CoverageMark mark_whole_early("client.small_task_made_whole_before_its_turn");
const CoverageMark mark_left_line("client.cancelled_in_a_line");

// A finished result that no code has read keeps its row, and a call in flight keeps both rows. A
// million of the former may exist, and the size of the latter affects the latency of each call.
static_assert(sizeof(ObjectRow) <= 88);
static_assert(sizeof(TaskRow) <= 224);

// Divisor of `near_tasks`: a refill ends when that quotient of tasks have rows.
constexpr std::size_t refilled_part = 8;

}  // namespace

bool Dispatcher::is_far(ClassId demand_class) const {
  const ClassRow* demand = classes_.find(demand_class);
  return demand != nullptr && is_far(*demand);
}

bool Dispatcher::is_far(const ClassRow& demand) const {
  return demand.line.first != BacklogLine::none ||
         demand.queue.size() >= step_.options().near_tasks;
}

void Dispatcher::join_far(TaskId task, const TaskRow& row) {
  mark_kept_small.hit();
  stale_.push_back(row.demand_class);
  backlog_.add(classes_.at(row.demand_class).line, task, row, 1, 0, no_watcher);
}

void Dispatcher::join(TaskId task, const TaskRow& row) {
  const ClassId demand_class = row.demand_class;
  ClassRow& demand = classes_.at(demand_class);
  stale_.push_back(demand_class);
  if (!is_far(demand)) {
    demand.queue.push_back(task);
    class_clocks_.queue_changed(demand);
    return;
  }
  const auto counts = CompactQueue::fits(row) ? port_.plain_result(row.first_result) : std::nullopt;
  if (!counts) return backlog_.add_whole(demand.line, task);
  mark_kept_small.hit();
  backlog_.add(demand.line, task, row, counts->refs, counts->wants, counts->watchers);
  port_.erase_rows(task, row.first_result);
}

void Dispatcher::leave(TaskId task, ClassId demand_class) {
  ClassRow& demand = classes_.at(demand_class);
  if (std::erase(demand.queue, task) == 0) {
    mark_left_line.hit();
    --demand.line.tasks;  // its position is removed when it reaches the front
  }
  class_clocks_.queue_changed(demand);
  stale_.push_back(demand_class);
}

void Dispatcher::refill(ClassRow& demand) {
  if (demand.line.first == BacklogLine::none) return;
  const std::size_t least = std::max<std::size_t>(1, step_.options().near_tasks / refilled_part);
  while (demand.queue.size() < least && demand.line.first != BacklogLine::none) {
    auto next = backlog_.take_front(demand.line);
    if (next->whole) {
      port_.add_rows(std::move(*next->whole));
    } else if (const auto* row = port_.find_task(next->task);
               row == nullptr || row->state != TaskState::queued) {
      continue;  // it was cancelled or expanded and finished
    }
    --demand.line.tasks;
    demand.queue.push_back(next->task);
  }
  class_clocks_.queue_changed(demand);
}

void Dispatcher::expand_children(TaskId parent) {
  if (!backlog_.may_have_children(parent)) return;
  std::vector<CompactQueue::RowIndex> children;
  for (const auto& [id, demand] : classes_) {
    backlog_.for_each(demand.line, [&](TaskId, CompactQueue::RowIndex index, bool small) {
      if (small && backlog_.parent(index) == parent) children.push_back(index);
    });
  }
  for (const auto index : children) port_.add_rows(backlog_.take(index));
}

void Dispatcher::expand_result(ObjectId result) {
  const auto index = backlog_.find(result);
  if (!index) return;
  mark_whole_early.hit();
  port_.add_rows(backlog_.take(*index));
}

void Dispatcher::requeue(TaskId task, ClassId demand_class) {
  ClassRow& demand = classes_.at(demand_class);
  demand.queue.push_front(task);
  class_clocks_.queue_changed(demand);
  stale_.push_back(demand_class);
}

void Dispatcher::add_task(DemandClass&& spec, bool fail_if_infeasible) {
  const ClassId id = spec.id;
  auto [demand, fresh] = classes_.ensure(id);
  if (fresh) {
    class_clocks_.add(*demand);
    demand->spec = std::move(spec);
    const Request& request = demand->spec.request;
    if (std::holds_alternative<SpreadStrategy>(request.strategy) &&
        request.placement.group.empty()) {
      demand->spread.emplace();
    }
  }
  ++demand->tasks;
  demand->fail_if_infeasible |= fail_if_infeasible;
}

void Dispatcher::remove_task(ClassId demand_class) {
  auto* demand = classes_.find(demand_class);
  if (demand == nullptr) return;
  --demand->tasks;
  stale_.push_back(demand_class);
}

void Dispatcher::fail_queued(ClassId demand_class, ErrorKind kind, const std::string& why,
                             const std::string& resource) {
  ClassRow& demand = classes_.at(demand_class);
  for (refill(demand); !demand.queue.empty(); refill(demand)) {
    const TaskId task = demand.queue.front();
    demand.queue.pop_front();
    class_clocks_.queue_changed(demand);
    ErrorRecord error;
    error.kind = kind;
    error.text = "task " + port_.task_row(task).call.form->name + why;
    error.resource = resource;
    port_.finish_with_error(task, std::move(error));
  }
  stale_.push_back(demand_class);
}

}  // namespace mobula::internal::client
