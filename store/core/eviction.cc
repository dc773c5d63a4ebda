#include "store/core/eviction.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mobula::internal {
namespace {

struct Slab {
  SlabId id;
  std::vector<const EvictionCandidate*> objects;
  std::uint64_t used_bytes = 0;
  Time last_use;
  bool stuck = false;
  bool free = true;  // all objects can leave without a write

  // Slabs without a write first, then the least recently used.
  auto order() const { return std::tuple(!free, last_use, id); }
};

std::vector<Slab> slabs_of(const std::vector<EvictionCandidate>& all) {
  std::map<SlabId, Slab> by_id;
  for (const EvictionCandidate& each : all) {
    Slab& slab = by_id[each.location.slab];
    slab.id = each.location.slab;
    slab.objects.push_back(&each);
    slab.used_bytes += SlabAllocator::extent_bytes(each.location.size_bytes);
    slab.last_use = std::max(slab.last_use, each.last_use);
    slab.stuck = slab.stuck || each.departure == Departure::never;
    slab.free = slab.free && each.departure == Departure::at_once;
  }
  std::vector<Slab> slabs;
  for (auto& [id, slab] : by_id) slabs.push_back(std::move(slab));
  std::sort(slabs.begin(), slabs.end(),
            [](const Slab& a, const Slab& b) { return a.order() < b.order(); });
  return slabs;
}

void take(const EvictionCandidate& each, EvictionChoice& choice) {
  if (each.departure == Departure::at_once) choice.at_once.push_back(each.object);
  if (each.departure == Departure::written) choice.written.push_back(each.object);
  if (each.departure == Departure::requested) choice.requested.push_back(each.object);
  if (each.departure == Departure::coming) ++choice.coming;
  choice.used_bytes += SlabAllocator::extent_bytes(each.location.size_bytes);
}

}  // namespace

EvictionChoice choose_evictions(const std::vector<EvictionCandidate>& all, const SlabSpace& space,
                                const EvictionGoal& goal) {
  EvictionChoice choice;
  const auto enough = [&] {
    return choice.used_bytes >= goal.used_bytes && choice.slab_bytes >= goal.slab_bytes;
  };
  const std::vector<Slab> slabs = slabs_of(all);
  for (const Slab& slab : slabs) {
    if (enough()) return choice;
    if (slab.stuck) continue;
    for (const EvictionCandidate* each : slab.objects) take(*each, choice);
    choice.slab_bytes += space.owner_of(slab.id)->size_bytes;
  }
  if (enough() || !goal.own) return choice;

  std::vector<const EvictionCandidate*> own;
  for (const Slab& slab : slabs) {
    if (!slab.stuck) continue;  // already chosen
    const auto owner = space.owner_of(slab.id);
    if (owner->writer != goal.own->writer || owner->job != goal.own->job) continue;
    for (const EvictionCandidate* each : slab.objects) {
      if (each->departure != Departure::never) own.push_back(each);
    }
  }
  std::stable_sort(own.begin(), own.end(),
                   [](const auto* a, const auto* b) { return a->last_use < b->last_use; });
  std::uint64_t bytes = 0;
  for (const EvictionCandidate* each : own) {
    if (bytes >= goal.own->size_bytes) break;
    take(*each, choice);
    bytes += SlabAllocator::extent_bytes(each->location.size_bytes);
  }
  return choice;
}

}  // namespace mobula::internal
