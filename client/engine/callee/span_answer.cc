#include "client/engine/callee/span_answer.h"

#include <utility>

namespace mobula::internal::client {

SpanAnswer::SpanAnswer(Time now, std::int64_t wall_us, const SpansRequest& query)
    : now_(now), limit_(static_cast<std::size_t>(query.limit)), task_(query.task) {
  reply_.request = query.request;
  reply_.wall_us = wall_us;
}

std::uint32_t SpanAnswer::name_of(const std::string& name) {
  const auto [at, fresh] =
      numbers_.try_emplace(name, static_cast<std::uint32_t>(reply_.names.size()));
  if (fresh) reply_.names.push_back(name);
  return at->second;
}

void SpanAnswer::add(const OwnedCalls& calls) {
  const std::size_t first = first_of(calls.size());
  reply_.owned_forgotten += calls.forgotten() + first;
  for (std::size_t i = task_.empty() ? first : 0; i < calls.size(); ++i) {
    const OwnedCall& each = calls[i];
    if (!task_.empty() && each.task != task_) continue;
    reply_.owned.push_back({each.task, name_of(each.form->name), now_ - each.submitted,
                            now_ - each.sent, now_ - each.ended, each.by.executor, each.failed,
                            each.by.run_time, each.by.node, each.by.pid, each.parent});
  }
}

void SpanAnswer::add(TransfersReply transfers) {
  reply_.transfers = std::move(transfers.transfers);
  reply_.transfers_forgotten = transfers.left_out;
}

}  // namespace mobula::internal::client
