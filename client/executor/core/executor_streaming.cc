// Items of streaming calls. Part of ExecutorCore.
#include <utility>

#include "client/executor/core/executor_core.h"

namespace mobula::internal::executor {

// The call may have ended by a forced cancellation while the item was stored.
void ExecutorCore::on(ItemGiven& event) {
  const auto* row = running_.find(event.token);
  auto* caller = row != nullptr ? callers_.find(row->caller) : nullptr;
  if (caller == nullptr) {
    if (!event.pinned.empty()) emit(ReleasePins{std::move(event.pinned), false});
    return;
  }
  if (!event.pinned.empty())
    caller->pinned.emplace(std::pair(row->number, event.index + 1), std::move(event.pinned));
  items_.sent(event.token, event.index, event.value.size_bytes);
  say(row->caller, ItemYielded{row->number, row->call.task, event.index, std::move(event.value),
                               std::move(event.handovers)});
}

void ExecutorCore::on(ProcessId caller, ItemsTaken& message) {
  if (const auto token = items_.taken(caller, message.number, message.taken))
    emit(WindowMoved{*token});
}

}  // namespace mobula::internal::executor
