#include "tensor/exchange/core/idle_connections.h"

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::transfer {
namespace {

const CoverageMark mark_parting("regions.connection_that_idles_is_closed");
const CoverageMark mark_crowded("regions.connection_is_closed_for_lack_of_space");

}  // namespace

void IdleConnections::used(ProcessId holder) { connections_[holder].used = context_.now; }

bool IdleConnections::is_parting(ProcessId holder) const {
  const auto at = connections_.find(holder);
  return at != connections_.end() && at->second.closing != 0;
}

bool IdleConnections::parted(ProcessId holder, std::uint64_t round) {
  const auto at = connections_.find(holder);
  if (at == connections_.end() || round == 0 || at->second.closing != round) return false;
  connections_.erase(at);
  return true;
}

void IdleConnections::gone(ProcessId holder) {
  connections_.erase(holder);
  may_.erase(holder);
}

std::optional<Time> IdleConnections::due(ProcessId holder, const Connection& connection) const {
  const auto& options = context_.options;
  if (options.idle_timeout <= Duration(0) || connection.closing != 0 || !may_.contains(holder))
    return std::nullopt;
  const bool many = connections_.size() > options.many_ties;
  return connection.used +
         (many ? std::min(options.idle_timeout, options.part_after_of_many) : options.idle_timeout);
}

void IdleConnections::tick(const std::function<bool(ProcessId)>& is_busy) {
  for (auto& [holder, connection] : connections_) {
    const auto when = due(holder, connection);
    if (!when || *when > context_.now) continue;
    if (is_busy(holder)) {
      connection.used = context_.now;
      continue;
    }
    (connection.used + context_.options.idle_timeout <= context_.now ? mark_parting : mark_crowded)
        .hit();
    connection.closing = ++last_round_;
    context_.send(holder, CloseConnectionRequest{connection.closing});
  }
}

std::optional<Time> IdleConnections::next_deadline() const {
  std::optional<Time> first;
  for (const auto& [holder, connection] : connections_) {
    const auto when = due(holder, connection);
    if (when && (!first || *when < *first)) first = when;
  }
  return first;
}

}  // namespace mobula::internal::transfer
