#include "device/gpu/gpu_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/logging/log.h"
#include "base/mutex.h"
#include "base/thread_start.h"
#include "device/detection/pci.h"
#include "device/gpu/gpu_share.h"
#include "device/host.h"

namespace mobula::internal::exchange {
// Device memory as seen by tensors: opens the devices on first use and frees through `GpuDevices`.
class LeasedMemory final : public DeviceMemory {
 public:
  explicit LeasedMemory(std::weak_ptr<GpuDevices> devices) : devices_(std::move(devices)) {}

  Result<DeviceAllocation> take(int device, std::size_t size_bytes) override {
    const auto all = opened();
    return all ? (*all)->take(device, size_bytes) : Result<DeviceAllocation>(all.error());
  }
  Result<void> clear(int device, std::byte* bytes, std::size_t size_bytes) override {
    const auto all = opened();
    return all ? (*all)->cuda_->clear(device, bytes, size_bytes) : Result<void>(all.error());
  }
  Result<void> copy(const DeviceCopy& copy) override {
    const auto all = opened();
    return all ? (*all)->cuda_->copy(copy) : Result<void>(all.error());
  }
  Result<void> finish(int device, const std::vector<void*>& streams) override {
    const auto all = opened();
    return all ? (*all)->cuda_->finish(device, streams) : Result<void>(all.error());
  }
  std::string uuid_of(int device) override {
    const auto all = opened();
    return all ? (*all)->cuda_->uuid_of(device) : std::string();
  }
  int landing(const std::string& uuid) override {
    const auto all = opened();
    return all ? (*all)->landing(uuid) : on_host;
  }
  bool is_shareable(int device, const std::byte* bytes) override {
    const auto all = opened();
    return all && (*all)->cuda_->is_shareable(device, bytes);
  }
  void* thread_stream() override {
    const auto all = opened();
    return all ? (*all)->cuda_->thread_stream() : nullptr;
  }

 private:
  Result<std::shared_ptr<GpuDevices>> opened() {
    auto alive = devices_.lock();
    if (!alive) return failure(ErrorCode::unavailable, "the runtime was shut down");
    if (auto open = alive->open(); !open) return open.error();
    return alive;
  }

  const std::weak_ptr<GpuDevices> devices_;
};

GpuDevices::GpuDevices(std::vector<GpuTerms> terms, std::function<void(const std::string&)> lost,
                       PinnedSliceOptions staging)
    : terms_(std::move(terms)), lost_(std::move(lost)), staging_(staging) {}

GpuDevices::~GpuDevices() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (freer_.joinable()) freer_.join();
}

std::shared_ptr<DeviceMemory> GpuDevices::memory() {
  return std::make_shared<LeasedMemory>(weak_from_this());
}

// ---- open ---------------------------------------------------------------------------------------

Result<void> GpuDevices::open() {
  std::call_once(once_, [this] {
    opened_ = open_all();
    if (!opened_) {
      why_none_ = opened_.error().text;
      devices_.clear();
      log_warn("the GPUs of this process cannot be used for tensors: {}", why_none_);
    }
    settled_ = true;
  });
  return opened_;
}

Result<void> GpuDevices::open_all() {
  auto driver = CudaDriver::open();
  if (!driver) return driver.error();
  (*driver)->on_lost(lost_);
  const auto visible = GpuContext::visible(**driver);
  if (!visible) return visible.error();
  std::vector<GpuTerms> left = terms_;
  std::vector<std::shared_ptr<DeviceArena>> arenas;
  std::string there;
  bool any = false;
  for (std::size_t i = 0; i < visible->size(); ++i) {
    const std::string uuid = to_string((*visible)[i]);
    there += (i == 0 ? "" : ", ") + uuid;
    const auto terms = std::ranges::find_if(left, [&](const GpuTerms& each) {
      return each.uuid.empty() || device_uuid_from(each.uuid) == (*visible)[i];
    });
    closed_.push_back(std::make_shared<Closed>());
    devices_.emplace_back();
    arenas.emplace_back();
    if (terms == left.end()) continue;  // visible, but not leased
    auto made = open_one(*driver, (*visible)[i], *terms, i);
    if (!made) return made.error();
    left.erase(terms);
    arenas.back() = made->arena;
    devices_.back() = std::move(*made);
    any = true;
  }
  if (!any) {
    return failure(ErrorCode::not_found,
                   fmt::format("no GPU of the slot is visible to this process, which sees {}",
                               there.empty() ? "none" : there));
  }
  discover();
  cuda_ = std::make_shared<CudaMemory>(std::move(arenas));
  nccl_ = NcclLibrary::open();
  return {};
}

Result<GpuDevices::Device> GpuDevices::open_one(const std::shared_ptr<const CudaDriver>& driver,
                                                const DeviceUuid& uuid, const GpuTerms& terms,
                                                std::size_t index) {
  auto context = GpuContext::open(driver, uuid);
  if (!context) return context.error();
  const auto memory = (*context)->memory();
  if (!memory) return memory.error();
  Device made;
  made.uuid = to_string(uuid);
  for (const std::string& each : terms.peers) {
    if (const auto peer = device_uuid_from(each)) made.peers.insert(*peer);
  }
  made.context = std::move(*context);
  made.bus_id = made.context->pci_bus_id();
  DeviceArenaOptions arena_options;
  arena_options.max_bytes = terms.memory_bytes;
  if (arena_options.max_bytes == 0) {
    // Without amounts in the report, more than one device counts as one whole device.
    const auto bytes = tensor_bytes_of({.fraction = std::min(terms.amount, Quantity::whole(1)),
                                        .usable_bytes = memory->total_bytes,
                                        .context_bytes = terms.context_bytes});
    if (!bytes) return bytes.error();
    arena_options.max_bytes = *bytes;
  }
  made.arena = std::make_shared<DeviceArena>(made.context, arena_options,
                                             [closed = closed_[index]](std::uint64_t chunk) {
                                               const MutexLock lock(closed->mutex);
                                               if (closed->callback) closed->callback(chunk);
                                             });
  return made;
}

// Without a result, all CPUs and interfaces count as equally near.
void GpuDevices::discover() {
  std::vector<std::string> bus_ids;
  for (const Device& each : devices_) {
    if (!each.bus_id.empty()) bus_ids.push_back(each.bus_id);
  }
  if (bus_ids.empty()) return;
  auto read = locality_of(bus_ids);
  if (!read)
    return log_debug("the locality of the GPUs of this process is not known: {}",
                     read.error().text);
  locality_ = std::move(*read);
  const CpuList allowed = allowed_cpus();
  for (Device& each : devices_) {
    const auto near = locality_.cpus_of.find(each.bus_id);
    if (near == locality_.cpus_of.end()) continue;
    each.cpus = cpus_to_use(near->second, allowed);
    if (!each.cpus.empty())
      log_debug("the threads that serve {} run on the CPUs {}", each.uuid, to_text(each.cpus));
  }
}

// ---- queries ------------------------------------------------------------------------------------

std::optional<std::uint32_t> GpuDevices::ordinal_of(const std::string& uuid) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].context && devices_[i].uuid == uuid) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

int GpuDevices::landing(const std::string& uuid) const {
  return cuda_ ? cuda_->landing(uuid) : on_host;
}

void GpuDevices::on_closed(std::uint32_t device_ordinal,
                           std::function<void(std::uint64_t)> callback) {
  Closed& closed = *closed_.at(device_ordinal);
  const MutexLock lock(closed.mutex);
  closed.callback = std::move(callback);
}

// ---- memory ------------------------------------------------------------------------------------

Result<DeviceAllocation> GpuDevices::take(int device, std::uint64_t size_bytes) {
  auto taken = cuda_->take(device, size_bytes);
  if (!taken && taken.error().code == ErrorCode::resource_exhausted) {
    wait_until_freed();
    taken = cuda_->take(device, size_bytes);
  }
  if (!taken) return taken.error();
  return DeviceAllocation{taken->bytes, freed_elsewhere(std::move(taken->owner))};
}

std::shared_ptr<const void> GpuDevices::freed_elsewhere(std::shared_ptr<const void> owner) {
  const void* const at = owner.get();
  return {at, [owner = std::move(owner), self = weak_from_this()](const void*) mutable {
            if (const auto alive = self.lock()) return alive->free_later(std::move(owner));
            owner.reset();
          }};
}

void GpuDevices::free_later(std::shared_ptr<const void> owner) {
  const MutexLock lock(mutex_);
  to_free_.push_back(std::move(owner));
  if (!freer_.joinable() && !ends_) {
    auto started = start_thread("mobula-freer", [this] { free_all(); });
    if (started) freer_ = std::move(*started);
  }
  changed_.notify_all();
}

void GpuDevices::free_all() {
  MutexLock lock(mutex_);
  while (true) {
    while (!ends_ && to_free_.empty()) changed_.wait(lock);
    if (to_free_.empty()) return;
    auto gone = std::exchange(to_free_, {});
    freeing_ = true;
    lock.unlock();
    gone.clear();
    lock.lock();
    freeing_ = false;
    changed_.notify_all();
  }
}

void GpuDevices::wait_until_freed() {
  MutexLock lock(mutex_);
  while (!ends_ && freer_.joinable() && (!to_free_.empty() || freeing_)) changed_.wait(lock);
}

}  // namespace mobula::internal::exchange
