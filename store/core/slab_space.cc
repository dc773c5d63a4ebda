#include "store/core/slab_space.h"

#include <algorithm>

#include "base/check.h"

namespace mobula::internal {
namespace {

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + SlabSpace::page_bytes - 1) / SlabSpace::page_bytes * SlabSpace::page_bytes;
}

}  // namespace

SlabSpace::SlabSpace(SpaceOptions options) : options_(options) {
  options_.first_slab_bytes = whole_pages(std::max<std::uint64_t>(options_.first_slab_bytes, 1));
  options_.max_slab_bytes =
      std::max(whole_pages(options_.max_slab_bytes), options_.first_slab_bytes);
}

std::optional<Placement> SlabSpace::allocate(JobId job, ProcessId writer,
                                             std::uint64_t size_bytes) {
  if (size_bytes > options_.capacity_bytes) return std::nullopt;
  const Owners owner{writer, job};
  Placement placement;
  placement.location = find_in_existing(owner, size_bytes);
  if (placement.location) return placement;

  const std::uint64_t minimum = whole_pages(SlabAllocator::extent_bytes(size_bytes));
  const auto slab_bytes = new_slab_bytes(owner, minimum);
  if (!slab_bytes) {
    auto retired = free_capacity(minimum + reserved_from(owner, minimum));
    if (!retired) return std::nullopt;
    placement.retire = std::move(*retired);
    return placement;
  }
  const SlabId id = next_id();
  add_slab(id, job, writer, *slab_bytes);
  placement.create = NewSlab{id, job, writer, *slab_bytes};
  placement.location = find_in_existing(owner, size_bytes);
  MOBULA_CHECK(placement.location.has_value(), "an object does not fit the slab made for it");
  return placement;
}

std::optional<ObjectLocation> SlabSpace::find_in_existing(const Owners& owner,
                                                          std::uint64_t size_bytes) {
  const auto owned = by_owner_.find(owner);
  if (owned == by_owner_.end()) return std::nullopt;
  const std::uint64_t reserved = reserved_from(owner, size_bytes);
  const auto take = [&](SlabId id, Slab& slab) -> std::optional<ObjectLocation> {
    if (slab.retiring || slab.closing) return std::nullopt;
    const bool in_reserve = reserved > 0 && slab.extents.empty() &&
                            available_bytes() < slab.extents.size_bytes() + reserved;
    if (in_reserve) return std::nullopt;
    const auto offset = slab.extents.allocate(size_bytes);
    if (!offset) return std::nullopt;
    used_bytes_ += SlabAllocator::extent_bytes(size_bytes);
    count_idle(slab);
    return ObjectLocation{id, *offset, size_bytes};
  };
  for (const SlabId id : owned->second) {
    Slab& slab = slabs_.at(id);
    if (!slab.extents.has_warm(size_bytes)) continue;
    if (auto location = take(id, slab)) return location;
  }
  for (const SlabId id : owned->second) {
    if (auto location = take(id, slabs_.at(id))) return location;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> SlabSpace::new_slab_bytes(const Owners& owner,
                                                       std::uint64_t minimum) const {
  std::uint64_t owned_bytes = 0;
  if (const auto owned = by_owner_.find(owner); owned != by_owner_.end()) {
    for (const SlabId id : owned->second) owned_bytes += slabs_.at(id).extents.size_bytes();
  }
  const std::uint64_t taken = committed_bytes_ + reserved_from(owner, minimum);
  const std::uint64_t free_bytes =
      options_.capacity_bytes - std::min(options_.capacity_bytes, taken);
  if (minimum > free_bytes) return std::nullopt;
  std::uint64_t wanted =
      std::clamp(whole_pages(owned_bytes), options_.first_slab_bytes, options_.max_slab_bytes);
  while (wanted > free_bytes && wanted > minimum) wanted = whole_pages(wanted / 2);
  return std::max(wanted, minimum);
}

std::uint64_t SlabSpace::reserved_from(const Owners& owner, std::uint64_t minimum) const {
  if (owner.first == options_.incarnation) return 0;
  return std::min(reserved_bytes_,
                  options_.capacity_bytes - std::min(options_.capacity_bytes, minimum));
}

std::optional<std::vector<RetiredSlab>> SlabSpace::free_capacity(std::uint64_t needed) {
  std::uint64_t empty_bytes = 0;
  for (const auto& [id, slab] : slabs_) {
    if (slab.extents.empty() && !slab.retiring) empty_bytes += slab.extents.size_bytes();
  }
  const auto fits = [&](std::uint64_t coming) {
    return committed_bytes_ - coming + needed <= options_.capacity_bytes;
  };
  if (!fits(retiring_bytes_ + empty_bytes)) return std::nullopt;
  std::vector<RetiredSlab> retired;
  for (auto& [id, slab] : slabs_) {
    if (fits(retiring_bytes_)) break;
    if (slab.extents.empty() && !slab.retiring) retire(id, slab, retired);
  }
  return retired;
}

std::uint64_t SlabSpace::available_bytes() const {
  std::uint64_t coming = retiring_bytes_;
  for (const auto& [id, slab] : slabs_) {
    if (slab.extents.empty() && !slab.retiring) coming += slab.extents.size_bytes();
  }
  const std::uint64_t taken = committed_bytes_ - coming;
  return options_.capacity_bytes - std::min(options_.capacity_bytes, taken);
}

void SlabSpace::free(const ObjectLocation& location, SlabChanges& out) {
  Slab& slab = slabs_.at(location.slab);
  slab.extents.free(location.offset);
  used_bytes_ -= SlabAllocator::extent_bytes(location.size_bytes);
  count_idle(slab);
  if (slab.extents.empty()) settle_empty(location.slab, slab, out);
}

// An empty slab without a writer is removed. A live writer keeps its empty slabs up to the size of
// the largest slab. Otherwise objects that are freed and allocated in turn would get new pages each
// time. The smallest slabs are retired first.
void SlabSpace::settle_empty(SlabId id, Slab& slab, SlabChanges& out) {
  if (slab.writer.empty()) {
    erase(id);
    out.released.push_back(id);
    return;
  }
  if (slab.retiring) return;
  if (slab.closing) {
    retire(id, slab, out.retire);
    return;
  }
  std::vector<std::pair<std::uint64_t, SlabId>> empty;
  std::uint64_t empty_bytes = 0;
  for (const SlabId each : by_owner_.at({slab.writer, slab.job})) {
    const Slab& other = slabs_.at(each);
    if (other.retiring || !other.extents.empty()) continue;
    empty.emplace_back(other.extents.size_bytes(), each);
    empty_bytes += other.extents.size_bytes();
  }
  std::ranges::stable_sort(empty, std::ranges::less(), &std::pair<std::uint64_t, SlabId>::first);
  for (std::size_t i = 0; i + 1 < empty.size() && empty_bytes > options_.max_slab_bytes; ++i) {
    empty_bytes -= empty[i].first;
    retire(empty[i].second, slabs_.at(empty[i].second), out.retire);
  }
}

void SlabSpace::count_idle(Slab& slab) {
  const bool idle = slab.extents.empty() && !slab.writer.empty() && !slab.retiring && !slab.closing;
  if (!idle) slab.rested = false;
  if (idle == slab.idle) return;
  slab.idle = idle;
  idle_bytes_ =
      idle ? idle_bytes_ + slab.extents.size_bytes() : idle_bytes_ - slab.extents.size_bytes();
}

std::vector<RetiredSlab> SlabSpace::retire_rested(std::uint64_t floor_bytes) {
  std::vector<std::pair<std::uint64_t, SlabId>> rested;
  for (auto& [id, slab] : slabs_) {
    if (slab.rested) rested.emplace_back(slab.extents.size_bytes(), id);
    slab.rested = slab.idle;
  }
  std::ranges::stable_sort(rested, std::ranges::greater(),
                           &std::pair<std::uint64_t, SlabId>::first);
  std::vector<RetiredSlab> retired;
  for (const auto& [size_bytes, id] : rested) {
    if (idle_bytes_ <= floor_bytes) break;
    retire(id, slabs_.at(id), retired);
  }
  return retired;
}

bool SlabSpace::adopt(SlabId slab, JobId job, ProcessId writer, std::uint64_t size_bytes) {
  if (slabs_.contains(slab)) return false;
  add_slab(slab, job, writer, size_bytes);
  return true;
}

bool SlabSpace::claim(const ObjectLocation& location) {
  Slab* slab = slabs_.find(location.slab);
  if (slab == nullptr || !slab->extents.claim(location.offset, location.size_bytes)) return false;
  used_bytes_ += SlabAllocator::extent_bytes(location.size_bytes);
  count_idle(*slab);
  return true;
}

void SlabSpace::drop_writer(ProcessId writer, SlabChanges& out) {
  std::vector<SlabId> owned;
  for (auto at = by_owner_.lower_bound({writer, JobId{}});
       at != by_owner_.end() && at->first.first == writer; at = by_owner_.erase(at)) {
    owned.insert(owned.end(), at->second.begin(), at->second.end());
  }
  for (const SlabId id : owned) {
    Slab& slab = slabs_.at(id);
    slab.writer = ProcessId{};
    count_idle(slab);
    if (!slab.extents.empty()) continue;
    erase(id);
    out.released.push_back(id);
  }
}

std::set<JobId> SlabSpace::jobs() const {
  std::set<JobId> jobs;
  for (const auto& [id, slab] : slabs_) jobs.insert(slab.job);
  return jobs;
}

void SlabSpace::drop_job(JobId job, SlabChanges& out) {
  for (auto& [id, slab] : slabs_) {
    if (slab.job != job) continue;
    slab.closing = true;
    count_idle(slab);
    if (slab.extents.empty() && !slab.retiring) retire(id, slab, out.retire);
  }
}

bool SlabSpace::slab_gone(SlabId slab) {
  const Slab* row = slabs_.find(slab);
  if (row == nullptr || !row->retiring) return false;
  erase(slab);
  return true;
}

void SlabSpace::forget(SlabId slab) {
  used_bytes_ -= slabs_.at(slab).extents.used_bytes();
  erase(slab);
}

std::optional<SlabSpace::Owner> SlabSpace::owner_of(SlabId slab) const {
  const Slab* row = slabs_.find(slab);
  if (row == nullptr) return std::nullopt;
  return Owner{row->job, row->writer, row->extents.size_bytes()};
}

// Messages identify a slab by the low half of its id, so the high half is zero.
SlabId SlabSpace::next_id() {
  for (;;) {
    const Hash128 bits = derive_bits(options_.incarnation.bits(), "slab", next_slab_++);
    const SlabId id(Hash128{0, bits.low});
    if (!id.empty() && !slabs_.contains(id)) return id;
  }
}

void SlabSpace::add_slab(SlabId id, JobId job, ProcessId writer, std::uint64_t size_bytes) {
  Slab slab{.job = job, .writer = writer, .extents = SlabAllocator(size_bytes)};
  committed_bytes_ += slab.extents.size_bytes();
  count_idle(slab);
  slabs_.insert(id, std::move(slab));
  if (!writer.empty()) by_owner_[{writer, job}].push_back(id);
}

void SlabSpace::retire(SlabId id, Slab& slab, std::vector<RetiredSlab>& out) {
  slab.retiring = true;
  count_idle(slab);
  retiring_bytes_ += slab.extents.size_bytes();
  out.push_back({id, slab.writer});
}

void SlabSpace::erase(SlabId id) {
  const Slab& slab = slabs_.at(id);
  committed_bytes_ -= slab.extents.size_bytes();
  if (slab.idle) idle_bytes_ -= slab.extents.size_bytes();
  if (slab.retiring) retiring_bytes_ -= slab.extents.size_bytes();
  if (const auto owned = by_owner_.find({slab.writer, slab.job}); owned != by_owner_.end()) {
    std::erase(owned->second, id);
    if (owned->second.empty()) by_owner_.erase(owned);
  }
  slabs_.erase(id);
}

}  // namespace mobula::internal
