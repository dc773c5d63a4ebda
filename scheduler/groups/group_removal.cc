#include <vector>

#include "base/coverage_mark.h"
#include "scheduler/groups/groups.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_freed_alone("scheduler.removed_group_freed_one_bundle");

}  // namespace

std::vector<SlotId> Groups::remove(GroupId id) {
  auto* row = rows_.find(id);
  if (row == nullptr) return {};
  queue_.erase(turn_of(*row));
  row->removing = true;
  cluster_.close_group(id);
  const auto users = accounting_.slots_in(id);
  return {users.begin(), users.end()};
}

void Groups::forget(GroupId id) {
  auto* row = rows_.find(id);
  if (row == nullptr || !row->removing) return;
  row->forgotten = true;
  ending_.try_emplace(id);
  free_bundles(id);
}

void Groups::free_removed(Time now) {
  std::vector<GroupId> due;
  for (auto& [id, frees_at] : ending_) {
    if (!frees_at) frees_at = now + settings_.removal_delay;
    if (*frees_at <= now) due.push_back(id);
  }
  for (const auto id : due) {
    ending_.erase(id);
    free_bundles(id);
  }
}

void Groups::free_bundles(GroupId id) {
  auto& row = rows_.at(id);
  const auto used = in_use(id);
  if (!used.empty() && ending_.contains(id)) return;
  if (!used.empty()) mark_freed_alone.hit();
  for (std::size_t i = 0; i < row.locations.size(); ++i) {
    const auto bundle = static_cast<std::int32_t>(i);
    if (used.contains(bundle) || !row.booked[i]) continue;
    accounting_.release(slot_of(id, bundle));
    row.booked[i] = false;
    row.locations[i] = {};
  }
  if (!used.empty()) return;
  ending_.erase(id);
  cluster_.drop_group(id);
  rows_.erase(id);
}

}  // namespace mobula::internal::scheduler
