#include "tensor/exchange/core/region_ties.h"

#include <algorithm>

#include "base/mark.h"

namespace mobula::internal::transfer {
namespace {

const Mark mark_parting("regions.connection_that_idles_is_closed");
const Mark mark_crowded("regions.connection_is_closed_for_want_of_room");

}  // namespace

void RegionTies::used(ProcessId holder) { ties_[holder].used = context_.now; }

bool RegionTies::is_parting(ProcessId holder) const {
  const auto at = ties_.find(holder);
  return at != ties_.end() && at->second.parting != 0;
}

bool RegionTies::parted(ProcessId holder, std::uint64_t round) {
  const auto at = ties_.find(holder);
  if (at == ties_.end() || round == 0 || at->second.parting != round) return false;
  ties_.erase(at);
  return true;
}

void RegionTies::gone(ProcessId holder) {
  ties_.erase(holder);
  may_.erase(holder);
}

std::optional<Time> RegionTies::due(ProcessId holder, const Tie& tie) const {
  const auto& options = context_.options;
  if (options.part_after <= Duration(0) || tie.parting != 0 || !may_.contains(holder)) return std::nullopt;
  const bool many = ties_.size() > options.many_ties;
  return tie.used + (many ? std::min(options.part_after, options.part_after_of_many) : options.part_after);
}

void RegionTies::tick(const std::function<bool(ProcessId)>& is_busy) {
  for (auto& [holder, tie] : ties_) {
    const auto when = due(holder, tie);
    if (!when || *when > context_.now) continue;
    if (is_busy(holder)) {
      tie.used = context_.now;
      continue;
    }
    (tie.used + context_.options.part_after <= context_.now ? mark_parting : mark_crowded).hit();
    tie.parting = ++last_round_;
    context_.send(holder, RegionsParting{tie.parting});
  }
}

std::optional<Time> RegionTies::next_deadline() const {
  std::optional<Time> first;
  for (const auto& [holder, tie] : ties_) {
    const auto when = due(holder, tie);
    if (when && (!first || *when < *first)) first = when;
  }
  return first;
}

}  // namespace mobula::internal::transfer
