#include "client/executor/core/prefetch.h"

namespace mobula::internal::executor {

void PrefetchBudget::waits(std::uint64_t token, ProcessId caller) {
  waiting_.emplace(token, Waiting{caller, 0, false});
}

bool PrefetchBudget::may_pull(std::uint64_t token, std::uint64_t bytes) {
  const auto at = waiting_.find(token);
  if (at == waiting_.end() || at->second.pulled) return true;
  if (ahead_ + bytes > max_bytes_ && !is_first(token, at->second.caller)) return false;
  at->second.pulled = true;
  at->second.bytes = bytes;
  ahead_ += bytes;
  return true;
}

void PrefetchBudget::begun(std::uint64_t token) {
  const auto at = waiting_.find(token);
  if (at == waiting_.end()) return;
  if (at->second.pulled) ahead_ -= at->second.bytes;
  waiting_.erase(at);
}

bool PrefetchBudget::is_first(std::uint64_t token, ProcessId caller) const {
  for (const auto& [other, waiting] : waiting_) {
    if (waiting.caller == caller) return other == token;
  }
  return false;
}

}  // namespace mobula::internal::executor
