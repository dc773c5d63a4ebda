// What finished tasks are kept for: their stored results can be made again when they are lost. Bounded by
// bytes; beyond the bound the oldest are given up, as they are the likeliest to be needed no more.
#include <string>

#include "base/mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const Mark mark_given_up("client.lineage_given_up");

}  // namespace

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
  const std::int64_t bytes = lineage_bytes_of(tasks_.at(task).call);
  lineage_.insert(task, bytes);
  lineage_bytes_ += bytes;
  while (lineage_bytes_ > options_.max_lineage_bytes) give_up_lineage(lineage_.begin()->first);
}

// It runs again, or is forgotten.
void ClientCore::leave_lineage(TaskId task) {
  const auto* bytes = lineage_.find(task);
  if (bytes == nullptr) return;
  lineage_bytes_ -= *bytes;
  lineage_.erase(task);
}

void ClientCore::give_up_lineage(TaskId task) {
  mark_given_up.hit();
  if (lineage_given_up_++ == 0) {
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
