#include "client/core/refs/lineage.h"

#include <algorithm>
#include <string>

#include "base/coverage_mark.h"
#include "client/core/calls/tasks.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_given_up("client.lineage_given_up");
const CoverageMark mark_remade("client.lost_elements_made_again");

}  // namespace

// A finished task keeps its own row, the rows of its results, and the values that its arguments
// hold here.
std::int64_t Lineage::bytes_of(const CallRecord& call) const {
  std::size_t bytes = sizeof(TaskRow) + call.form->num_returns * sizeof(ObjectRow);
  for (const auto& argument : *call.arguments) {
    bytes += sizeof(Argument);
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    bytes += object != nullptr ? sizeof(ObjectRow) + object->value->bytes.size()
                               : argument.value.bytes.size();
  }
  return static_cast<std::int64_t>(bytes);
}

void Lineage::add(TaskId task, const CallRecord& call) {
  const std::int64_t bytes = bytes_of(call);
  if (tasks_.insert(task, bytes).second) bytes_ += bytes;
}

void Lineage::remove(TaskId task) {
  const auto* bytes = tasks_.find(task);
  if (bytes == nullptr) return;
  bytes_ -= *bytes;
  tasks_.erase(task);
}

std::optional<TaskId> Lineage::beyond_bound() const {
  return bytes_ > max_bytes_ ? std::optional(tasks_.begin()->first) : std::nullopt;
}

// ---- lineage of tasks ---------------------------------------------------------------------------

void Tasks::keep_as_lineage(TaskId task) {
  lineage_.add(task, rows_.at(task).call);
  while (const auto oldest = lineage_.beyond_bound()) give_up_lineage(*oldest);
}

void Tasks::give_up_lineage(TaskId task) {
  mark_given_up.hit();
  if (lineage_.warn_now()) {
    step_.emit(Warn{
        "finished tasks whose results are still in use take more than " +
        std::to_string(step_.options().max_lineage_bytes >> 20) +
        " MiB of this process: the results of the oldest cannot be recomputed if they are lost"});
  }
  for (std::uint32_t i = 0; i < rows_.at(task).call.form->num_returns; ++i) {
    if (auto* result = objects_.find(result_id(task, i))) result->lineage_given_up = true;
  }
  for (const ObjectId item : items_.stored_items(task)) objects_.at(item).lineage_given_up = true;
  forget_task(task);
}

// ---- tensor elements that were lost with their process ------------------------------------------

void Tasks::on(const ElementsLost& event) { remake_elements(event.object); }

// A value whose task can run again is recomputed with its elements, and is not ready until then.
// Stored values stay: other processes may read them in the store, and a retry would find them
// there.
void Tasks::remake_elements(ObjectId elements) {
  std::vector<ObjectId> values;
  for (const auto& [object, row] : objects_.all()) {
    if (!row.owned || !row.ready || row.creator.empty() || row.value->in_store || row.storing)
      continue;
    const bool has = std::ranges::any_of(
        row.value->contained, [&](const RefRecord& ref) { return ref.object == elements; });
    if (has) values.push_back(object);
  }
  for (const ObjectId object : values) {
    auto* row = objects_.find(object);
    auto* task = row != nullptr ? rows_.find(row->creator) : nullptr;
    // The run that yields items ends first.
    const bool runs = task != nullptr && task->call.form->stream.window != 0 &&
                      task->state != TaskState::finished && task->retries_left != 0;
    if (task == nullptr || (!runs && !can_run_again(*task))) continue;
    const TaskId creator = row->creator;
    const auto contained = row->value->contained;
    row->ready = false;
    row->value = CopyOnWrite<ValueRecord>();
    mark_remade.hit();
    if (!runs) run_again(creator);
    for (const auto& ref : contained) objects_.unpin(ref.object);
    objects_.changed(object);
  }
}

}  // namespace mobula::internal::client
