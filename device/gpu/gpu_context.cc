#include "device/gpu/gpu_context.h"

#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace mobula::internal {
namespace {

Result<DeviceUuid> uuid_of(const CudaDriver& driver, cuda_abi::Device device) {
  cuda_abi::Uuid raw{};
  const auto status = driver.call().device_uuid(&raw, device);
  if (status != cuda_abi::success) return driver.error("cuDeviceGetUuid", status);
  DeviceUuid uuid{};
  std::memcpy(uuid.data(), raw.bytes, uuid.size());
  return uuid;
}

Result<void> check_abilities(const CudaDriver& driver, cuda_abi::Device device,
                             const std::string& name) {
  for (const auto& [attribute, what] :
       {std::pair(cuda_abi::attribute_virtual_memory, "cannot map memory at chosen addresses"),
        std::pair(cuda_abi::attribute_posix_fd_handles,
                  "cannot hand its memory to other processes")}) {
    int has = 0;
    const auto status = driver.call().device_attribute(&has, attribute, device);
    if (status != cuda_abi::success) return driver.error("cuDeviceGetAttribute", status);
    if (has == 0) {
      return failure(ErrorCode::unavailable,
                     fmt::format("{} {}; tensors stay in host memory", name, what));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<DeviceUuid>> GpuContext::visible(const CudaDriver& driver) {
  if (const auto status = driver.call().init(0); status != cuda_abi::success) {
    return driver.error("cuInit", status);
  }
  int count = 0;
  if (const auto status = driver.call().device_count(&count); status != cuda_abi::success) {
    return driver.error("cuDeviceGetCount", status);
  }
  std::vector<DeviceUuid> all;
  for (int i = 0; i < count; ++i) {
    cuda_abi::Device device = 0;
    if (const auto status = driver.call().device_at(&device, i); status != cuda_abi::success) {
      return driver.error("cuDeviceGet", status);
    }
    const auto uuid = uuid_of(driver, device);
    if (!uuid) return uuid.error();
    all.push_back(*uuid);
  }
  return all;
}

Result<std::shared_ptr<GpuContext>> GpuContext::open(std::shared_ptr<const CudaDriver> driver,
                                                     const DeviceUuid& uuid) {
  const auto devices = visible(*driver);
  if (!devices) return devices.error();
  std::string there;
  int ordinal = -1;
  for (std::size_t i = 0; i < devices->size(); ++i) {
    if ((*devices)[i] == uuid) ordinal = static_cast<int>(i);
    there += (i == 0 ? "" : ", ") + to_string((*devices)[i]);
  }
  if (ordinal < 0) {
    return failure(ErrorCode::not_found,
                   fmt::format("{} is not visible to this process, which sees {}", to_string(uuid),
                               there.empty() ? "none" : there));
  }
  std::shared_ptr<GpuContext> made(new GpuContext());
  made->driver_ = std::move(driver);
  made->uuid_ = uuid;
  const CudaFunctions& call = made->call();
  if (const auto status = call.device_at(&made->ordinal_, ordinal); status != cuda_abi::success) {
    return made->driver_->error("cuDeviceGet", status);
  }
  std::array<char, 256> name{};
  if (const auto status =
          call.device_name(name.data(), static_cast<int>(name.size()) - 1, made->ordinal_);
      status != cuda_abi::success) {
    return made->driver_->error("cuDeviceGetName", status);
  }
  made->name_ = name.data();
  if (auto able = check_abilities(*made->driver_, made->ordinal_, made->name_); !able)
    return able.error();
  if (const auto status = call.context_retain(&made->context_, made->ordinal_);
      status != cuda_abi::success) {
    made->context_ = nullptr;
    return made->driver_->error("cuDevicePrimaryCtxRetain", status);
  }
  return made;
}

GpuContext::~GpuContext() {
  if (context_ != nullptr) (void)call().context_release(ordinal_);
}

GpuContext::Current::Current(const GpuContext& of) : of_(of) {
  made_ = of.driver().check("cuCtxPushCurrent", of.call().context_push(of.context_));
  if (made_) (void)of.call().exchange_capture_mode(&capture_mode_);
}

GpuContext::Current::~Current() {
  if (!made_) return;
  (void)of_.call().exchange_capture_mode(&capture_mode_);
  cuda_abi::Context popped = nullptr;
  (void)of_.call().context_pop(&popped);
}

std::string GpuContext::pci_bus_id() const {
  std::array<char, 64> text{};
  const auto status =
      call().device_pci_bus_id(text.data(), static_cast<int>(text.size()) - 1, ordinal_);
  return status == cuda_abi::success ? text.data() : std::string();
}

Result<GpuMemory> GpuContext::memory() const {
  const Current current(*this);
  if (!current.made()) return current.made().error();
  std::size_t free = 0, total = 0;
  if (auto result = driver_->check("cuMemGetInfo", call().memory_left(&free, &total)); !result) {
    return result.error();
  }
  return GpuMemory{free, total};
}

bool GpuContext::reaches(const DeviceUuid& other) const {
  if (other == uuid_) return true;
  const auto devices = visible(*driver_);
  if (!devices) return false;
  for (std::size_t i = 0; i < devices->size(); ++i) {
    int can = 0;
    cuda_abi::Device device = 0;
    if ((*devices)[i] != other ||
        call().device_at(&device, static_cast<int>(i)) != cuda_abi::success) {
      continue;
    }
    return call().can_access_peer(&can, ordinal_, device) == cuda_abi::success && can != 0;
  }
  return false;
}

std::vector<cuda_abi::Device> GpuContext::readers() const {
  std::vector<cuda_abi::Device> all{ordinal_};
  int count = 0;
  if (call().device_count(&count) != cuda_abi::success) return all;
  for (int i = 0; i < count; ++i) {
    cuda_abi::Device device = 0;
    int can = 0;
    if (call().device_at(&device, i) != cuda_abi::success || device == ordinal_) continue;
    if (call().can_access_peer(&can, device, ordinal_) == cuda_abi::success && can != 0)
      all.push_back(device);
  }
  return all;
}

Result<void> GpuContext::synchronize() const {
  const Current current(*this);
  if (!current.made()) return current.made();
  // This reports nothing about streams that do not synchronize with the legacy stream; for those,
  // the next call fails.
  int capturing = cuda_abi::capture_none;
  auto status = call().stream_is_capturing(nullptr, &capturing);
  if (status == cuda_abi::success) status = call().context_synchronize();
  if (status == cuda_abi::stream_capture_implicit ||
      status == cuda_abi::stream_capture_unsupported) {
    return failure(ErrorCode::invalid_argument,
                   "work of this process is being captured into a graph, which prevents a wait for "
                   "the whole device; name the stream that writes the tensor with produced_on(), "
                   "or wait until the capture has ended");
  }
  return driver_->check("cuCtxSynchronize", status);
}

Result<GpuStream> GpuStream::create(std::shared_ptr<const GpuContext> context) {
  const GpuContext::Current current(*context);
  if (!current.made()) return current.made().error();
  int least = 0, greatest = 0;
  (void)context->call().priority_range(&least, &greatest);
  cuda_abi::Stream stream = nullptr;
  const auto status =
      context->call().stream_create(&stream, cuda_abi::stream_non_blocking, greatest);
  if (status != cuda_abi::success)
    return context->driver().error("cuStreamCreateWithPriority", status);
  return GpuStream(std::move(context), stream);
}

GpuStream::GpuStream(GpuStream&& other) noexcept
    : context_(std::move(other.context_)), stream_(std::exchange(other.stream_, nullptr)) {}

GpuStream::~GpuStream() {
  if (stream_ == nullptr) return;
  const GpuContext::Current current(*context_);
  (void)context_->call().stream_destroy(stream_);
}

Result<void> GpuStream::synchronize() const {
  const GpuContext::Current current(*context_);
  if (!current.made()) return current.made();
  return context_->driver().check("cuStreamSynchronize",
                                  context_->call().stream_synchronize(stream_));
}

Result<GpuEvent> GpuEvent::create(std::shared_ptr<const GpuContext> context) {
  const GpuContext::Current current(*context);
  if (!current.made()) return current.made().error();
  cuda_abi::Event event = nullptr;
  const auto status = context->call().event_create(&event, cuda_abi::event_no_timing);
  if (status != cuda_abi::success) return context->driver().error("cuEventCreate", status);
  return GpuEvent(std::move(context), event);
}

GpuEvent::GpuEvent(GpuEvent&& other) noexcept
    : context_(std::move(other.context_)), event_(std::exchange(other.event_, nullptr)) {}

GpuEvent::~GpuEvent() {
  if (event_ == nullptr) return;
  const GpuContext::Current current(*context_);
  (void)context_->call().event_destroy(event_);
}

Result<void> GpuEvent::record(cuda_abi::Stream stream) const {
  const GpuContext::Current current(*context_);
  if (!current.made()) return current.made();
  return context_->driver().check("cuEventRecord", context_->call().event_record(event_, stream));
}

Result<bool> GpuEvent::over() const {
  const GpuContext::Current current(*context_);
  if (!current.made()) return current.made().error();
  const auto status = context_->call().event_query(event_);
  if (status == cuda_abi::not_ready) return false;
  if (status == cuda_abi::success) return true;
  return context_->driver().error("cuEventQuery", status);
}

}  // namespace mobula::internal
