// Queues of demand classes: tasks near their turn have rows, and later ones are compact
// (backlog.h).
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_kept_small("client.task_kept_small");
const CoverageMark mark_whole_early("client.small_task_made_whole_before_its_turn");
const CoverageMark mark_left_line("client.cancelled_in_a_line");

// A finished result that no code has read keeps its row, and a call in flight keeps both rows. A
// million of the former may exist, and the size of the latter affects the latency of each call.
static_assert(sizeof(ObjectRow) <= 80);
static_assert(sizeof(TaskRow) <= 224);

// Divisor of `near_tasks`: a refill ends when that quotient of tasks have rows.
constexpr std::size_t refilled_part = 8;

// True if the row differs from that of a new result in its counts of refs and wants alone.
bool is_plain(const ObjectRow& row) {
  return row.owned && row.refs > 0 && row.pins == 0 && !row.ready && !row.exported &&
         !row.released && !row.storing && row.ref.is_empty() && row.reading.is_empty();
}

// Row shown for a result that has no row.
const ObjectRow& pending_result() {
  static const ObjectRow row = [] {
    ObjectRow pending;
    pending.owned = true;
    pending.refs = 1;
    return pending;
  }();
  return row;
}

}  // namespace

void ClientCore::join_queue(TaskId task, const TaskRow& row) {
  const ClassId demand_class = row.demand_class;
  ClassRow& demand = classes_.at(demand_class);
  stale_.push_back(demand_class);
  if (demand.line.first == BacklogLine::none && demand.queue.size() < step_.options().near_tasks) {
    demand.queue.push_back(task);
    class_clocks_.queue_changed(demand);
    return;
  }
  const ObjectId result = row.first_result;
  const auto* object = objects_.find(result);
  if (object == nullptr || !is_plain(*object) || !CompactQueue::fits(row)) {
    return backlog_.add_whole(demand.line, task);
  }
  mark_kept_small.hit();
  backlog_.add(demand.line, task, row, object->refs, object->wants);
  objects_.erase(result);
  tasks_.erase(task);
}

void ClientCore::leave_queue(TaskId task, ClassId demand_class) {
  ClassRow& demand = classes_.at(demand_class);
  if (std::erase(demand.queue, task) == 0) {
    mark_left_line.hit();
    --demand.line.tasks;  // its position is removed when it reaches the front
  }
  class_clocks_.queue_changed(demand);
  stale_.push_back(demand_class);
}

void ClientCore::refill(ClassRow& demand) {
  const std::size_t least = std::max<std::size_t>(1, step_.options().near_tasks / refilled_part);
  while (demand.queue.size() < least && demand.line.first != BacklogLine::none) {
    auto next = backlog_.take_front(demand.line);
    if (next->whole) {
      expand(std::move(*next->whole));
    } else if (const auto* row = tasks_.find(next->task);
               row == nullptr || row->state != TaskState::queued) {
      continue;  // it was cancelled or expanded and finished
    }
    --demand.line.tasks;
    demand.queue.push_back(next->task);
  }
  class_clocks_.queue_changed(demand);
}

void ClientCore::expand(CompactQueue::Expanded small) {
  if (small.refs > 0) {
    ObjectRow& result = own_object(small.result, small.task);
    result.refs = small.refs;
    result.wants = small.wants;
  }
  tasks_.insert(small.task, std::move(small.row));
}

void ClientCore::make_children_whole(TaskId parent) {
  if (!backlog_.may_have_children(parent)) return;
  std::vector<CompactQueue::Place> children;
  for (const auto& [id, demand] : classes_) {
    backlog_.for_each(demand.line, [&](TaskId, CompactQueue::Place place, bool small) {
      if (small && backlog_.parent(place) == parent) children.push_back(place);
    });
  }
  for (const auto place : children) expand(backlog_.take(place));
}

ObjectRow* ClientCore::find_object(ObjectId object) {
  if (const auto place = backlog_.find(object)) {
    mark_whole_early.hit();
    expand(backlog_.take(*place));
  }
  return objects_.find(object);
}

const ObjectRow* ClientCore::object(ObjectId object) const {
  const auto* row = objects_.find(object);
  return row == nullptr && backlog_.contains(object) ? &pending_result() : row;
}

void ClientCore::fail_queued(ClassId demand_class, ErrorKind kind, const std::string& why,
                             const std::string& resource) {
  ClassRow& demand = classes_.at(demand_class);
  for (refill(demand); !demand.queue.empty(); refill(demand)) {
    const TaskId task = demand.queue.front();
    demand.queue.pop_front();
    class_clocks_.queue_changed(demand);
    ErrorRecord error;
    error.kind = kind;
    error.text = "task " + tasks_.at(task).call.form->name + why;
    error.resource = resource;
    finish_with_error(task, std::move(error));
  }
  stale_.push_back(demand_class);
}

}  // namespace mobula::internal::client
