#include "client/core/lineage.h"

#include <string>

#include "base/mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const Mark mark_given_up("client.lineage_given_up");

}  // namespace

void Lineage::add(TaskId task, std::int64_t bytes) {
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

// ---- what the core does about it ---------------------------------------------------------------

// A finished task keeps its own row, those of its results, and what its arguments hold in this process.
std::int64_t ClientCore::lineage_bytes_of(const CallRecord& call) const {
  std::size_t bytes = sizeof(TaskRow) + call.form->num_returns * sizeof(ObjectRow);
  for (const auto& argument : *call.arguments) {
    bytes += sizeof(Argument);
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    bytes += object != nullptr ? sizeof(ObjectRow) + object->value->bytes.size() : argument.value.bytes.size();
  }
  return static_cast<std::int64_t>(bytes);
}

void ClientCore::keep_as_lineage(TaskId task) {
  lineage_.add(task, lineage_bytes_of(tasks_.at(task).call));
  while (const auto oldest = lineage_.beyond_bound()) give_up_lineage(*oldest);
}

void ClientCore::give_up_lineage(TaskId task) {
  mark_given_up.hit();
  if (lineage_.warn_now()) {
    emit(Warn{"finished tasks whose results are still in use take more than " +
              std::to_string(options_.max_lineage_bytes >> 20) +
              " MiB of this process: the results of the oldest cannot be made again if they are lost"});
  }
  for (std::uint32_t i = 0; i < tasks_.at(task).call.form->num_returns; ++i) {
    if (auto* result = objects_.find(result_id(task, i))) result->lineage_given_up = true;
  }
  forget_task(task);
}

}  // namespace mobula::internal::client
