// Tensors that this process made and keeps for others: their registration, and its end.
#include <algorithm>
#include <utility>

#include "client/engine/tensors/local_tensors.h"
#include "transport/tensor/gpu/cuda_ipc_transport.h"

namespace mobula::internal::client {
namespace {

// Registered memory, with the hold that keeps it unchanged for its readers.
struct Publication {
  std::shared_ptr<detail::TensorStorage> storage;
  detail::TensorStorage::Hold hold;
  std::shared_ptr<const std::function<void()>> gone;

  Publication(std::shared_ptr<detail::TensorStorage> of, detail::TensorStorage::Hold by,
              std::shared_ptr<const std::function<void()>> then)
      : storage(std::move(of)), hold(std::move(by)), gone(std::move(then)) {}
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;
  ~Publication() { end(); }
  void end() {
    if (!gone) return;
    hold = {};
    (*std::exchange(gone, nullptr))();
  }
};

}  // namespace

Result<RefRecord> LocalTensors::keep(const detail::TensorParts& parts,
                                     const TransportPreference& preference) {
  if (auto prepared = prepare(); !prepared) return prepared.error();
  const ProcessId process = engine_.core().options().process;
  const auto object = ObjectId::derived(process, "tensor", made_++);
  const auto range = detail::range_of(parts);
  const std::span<const std::byte> bytes(parts.storage->bytes() + range.begin,
                                         static_cast<std::size_t>(range.end - range.begin));
  const Device device = parts.storage->device();
  SourceRegion elements{.bytes = bytes};
  std::string uuid;
  if (device.kind != Device::cpu) {
    const auto index = static_cast<std::size_t>(device.index);
    if (!options_.gpus || index >= options_.gpus->devices().size() ||
        !options_.gpus->devices()[index].arena) {
      return failure(ErrorCode::invalid_argument,
                     "a tensor of a device that this process has no lease on");
    }
    const auto& own = options_.gpus->devices()[index];
    uuid = own.uuid;
    if (const auto file = own.arena->file_of(bytes.data()))
      elements = region_of(own.context->uuid(), bytes, *file);
    elements.location = {MemoryKind::device, own.context->uuid()};
  } else if (exchange_->arena()) {
    elements.file = exchange_->arena()->file_of(bytes);
  }
  RefRecord ref{object, engine_.core().node(), process, {}};
  TensorRecord& record = ref.tensor.edit();
  record.size_bytes = static_cast<std::int64_t>(bytes.size());
  record.in_shared_memory = elements.file.has_value();
  record.preference = preference;
  record.holder = exchange_->self();
  if (elements.file && uuid.empty()) {
    record.block = elements.file->block;
    record.block_offset = elements.file->offset;
  }
  record.device = std::move(uuid);
  auto hold = hold_for_readers({parts.storage, range}, preference, object);
  const std::uint64_t order = made_;
  kept_[object] = {parts.storage, range.begin, false, ref.tensor->size_bytes, order};
  kept_by_age_[order] = object;
  kept_bytes_ += ref.tensor->size_bytes;
  exchange_->register_tensor(object, elements,
                             make_pooled<Publication>(parts.storage, std::move(hold), freed_));
  engine_.step(KeepTensor{ref});
  return ref;
}

detail::TensorStorage::Hold LocalTensors::hold_for_readers(const detail::IncludedTensor& memory,
                                                           const TransportPreference& preference,
                                                           ObjectId object) const {
  const auto reader = [object] {
    return "others may read it: it was returned or put by reference, and that value is still "
           "referred to (tensor " +
           object.brief() + ")";
  };
  return preference.sharing == ElementSharing::alias ? memory.storage->alias(memory.range, reader)
                                                     : memory.storage->hold(memory.range, reader);
}

RefRecord LocalTensors::freeze(std::span<const detail::IncludedTensor> included,
                               const TransportPreference& preference) {
  const ProcessId process = engine_.core().options().process;
  const auto object = ObjectId::derived(process, "tensor", made_++);
  RefRecord ref{object, engine_.core().node(), process, {}};
  ref.tensor.edit().preference.sharing = preference.sharing;
  FrozenMemory& memory = frozen_[object];
  memory.reserve(included.size());
  for (const auto& each : included)
    memory.push_back({each.storage, hold_for_readers(each, preference, object)});
  engine_.step(KeepTensor{ref});
  return ref;
}

// Shares of the program's memory are released later and without the lock. Another thread may
// release its share at any time: the count of shares decides nothing.
void LocalTensors::unfreeze(FrozenMemory&& memory) {
  std::vector<std::shared_ptr<detail::TensorStorage>> unused;
  for (Frozen& each : memory) {
    each.hold = {};
    unused.push_back(std::move(each.storage));
  }
  (void)engine_.loop().post([unused = std::move(unused)] {});
  (*freed_)();
}

void LocalTensors::register_again() {
  for (auto& [object, kept] : kept_) {
    if (std::exchange(kept.stored, false) && exchange_) exchange_->register_again(object);
  }
}

ResidentResults LocalTensors::residence() const {
  if (kept_.empty()) return {};
  return {static_cast<std::int64_t>(kept_.size()), kept_bytes_, kept_by_age_.begin()->second};
}

bool LocalTensors::can_be_seen(const detail::TensorParts& parts) const {
  if (!exchange_ || !exchange_->arena()) return false;
  return exchange_->arena()
      ->file_of({parts.storage->bytes(), parts.storage->size_bytes()})
      .has_value();
}

// The last share of the program's memory may be freed here, so that happens later and without the
// lock.
bool LocalTensors::unneeded(ObjectId object) {
  if (auto frozen = frozen_.extract(object)) {
    unfreeze(std::move(frozen.mapped()));
    return false;
  }
  auto kept = kept_.extract(object);
  if (!kept) return false;
  kept_bytes_ -= kept.mapped().size_bytes;
  kept_by_age_.erase(kept.mapped().order);
  auto never_read = exchange_ ? exchange_->unregister(object) : nullptr;
  if (never_read) {
    std::const_pointer_cast<Publication>(std::static_pointer_cast<const Publication>(never_read))
        ->end();
  }
  // Another thread may release its share at any time: the count of shares decides nothing.
  (void)engine_.loop().post([storage = std::move(kept.mapped().storage), never_read] {});
  return true;
}

std::vector<ObjectId> LocalTensors::kept_in(const detail::TensorStorage& storage) const {
  std::vector<ObjectId> objects;
  for (const auto& [object, kept] : kept_) {
    if (kept.storage.get() == &storage) objects.push_back(object);
  }
  for (const auto& [object, memory] : frozen_) {
    const auto is_here = [&](const Frozen& each) { return each.storage.get() == &storage; };
    if (std::ranges::any_of(memory, is_here)) objects.push_back(object);
  }
  return objects;
}

void LocalTensors::evacuate() {
  if (exchange_) exchange_->evacuate();
}

bool LocalTensors::evacuated() const {
  return std::ranges::all_of(kept_, [](const auto& each) { return each.second.stored; });
}

}  // namespace mobula::internal::client
