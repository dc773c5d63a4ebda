#include "device/gpu/device_mapping.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <vector>

namespace mobula::internal {
namespace {

cuda_abi::AllocationProperties properties_on(const GpuContext& context) {
  cuda_abi::AllocationProperties made{};
  made.type = cuda_abi::allocation_pinned;
  made.handle_types = cuda_abi::handle_posix_fd;
  made.location = {cuda_abi::location_device, context.ordinal()};
  return made;
}

Result<std::size_t> granularity_on(const GpuContext& context) {
  const auto properties = properties_on(context);
  std::size_t granularity = 0;
  if (auto result =
          context.driver().check("cuMemGetAllocationGranularity",
                                 context.call().memory_granularity(&granularity, &properties,
                                                                   cuda_abi::granularity_minimum));
      !result) {
    return result.error();
  }
  return granularity;
}

}  // namespace

Result<DeviceMapping> DeviceMapping::create(std::shared_ptr<const GpuContext> context,
                                            std::uint64_t size_bytes) {
  const GpuContext::Current current(*context);
  if (!current.made()) return current.made().error();
  const auto granularity = granularity_on(*context);
  if (!granularity) return granularity.error();
  if (size_bytes == 0 || size_bytes > SIZE_MAX - *granularity) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} bytes of device memory", size_bytes));
  }
  DeviceMapping made;
  made.context_ = std::move(context);
  made.size_ = (size_bytes + *granularity - 1) / *granularity * *granularity;
  const auto properties = properties_on(*made.context_);
  const auto status =
      made.context_->call().memory_create(&made.handle_, made.size_, &properties, 0);
  if (status != cuda_abi::success) {
    return made.context_->driver().error(
        fmt::format("cuMemCreate of {} bytes on {}", made.size_, to_string(made.context_->uuid())),
        status);
  }
  made.has_handle_ = true;
  if (auto mapped = made.map(cuda_abi::access_read_write); !mapped) return mapped.error();
  return made;
}

Result<DeviceMapping> DeviceMapping::import(std::shared_ptr<const GpuContext> context,
                                            const Fd& descriptor, std::uint64_t size_bytes) {
  const GpuContext::Current current(*context);
  if (!current.made()) return current.made().error();
  const auto granularity = granularity_on(*context);
  if (!granularity) return granularity.error();
  if (size_bytes == 0 || size_bytes % *granularity != 0) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("imported device memory of {} bytes, no multiple of {}", size_bytes,
                               *granularity));
  }
  DeviceMapping made;
  made.context_ = std::move(context);
  made.size_ = size_bytes;
  void* const number = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  if (auto imported = made.context_->driver().check(
          "cuMemImportFromShareableHandle",
          made.context_->call().memory_import(&made.handle_, number, cuda_abi::handle_posix_fd));
      !imported) {
    return imported.error();
  }
  made.has_handle_ = true;
  if (auto mapped = made.map(cuda_abi::access_read); !mapped) return mapped.error();
  return made;
}

Result<void> DeviceMapping::map(int access) {
  const CudaFunctions& call = context_->call();
  const CudaDriver& driver = context_->driver();
  auto reserved =
      driver.check("cuMemAddressReserve", call.address_reserve(&address_, size_, 0, 0, 0));
  if (!reserved) {
    address_ = 0;
    return reserved;
  }
  if (auto mapped = driver.check("cuMemMap", call.memory_map(address_, size_, 0, handle_, 0));
      !mapped) {
    return mapped;
  }
  mapped_ = true;
  std::vector<cuda_abi::AccessDescription> wanted;
  if (access == cuda_abi::access_read_write) {
    for (const cuda_abi::Device each : context_->readers()) {
      wanted.push_back({{cuda_abi::location_device, each}, access});
    }
  } else {
    wanted.push_back({{cuda_abi::location_device, context_->ordinal()}, access});
  }
  return driver.check("cuMemSetAccess",
                      call.memory_set_access(address_, size_, wanted.data(), wanted.size()));
}

DeviceMapping::~DeviceMapping() {
  if (!context_) return;
  const GpuContext::Current current(*context_);
  const CudaFunctions& call = context_->call();
  if (mapped_) (void)call.memory_unmap(address_, size_);
  if (address_ != 0) (void)call.address_free(address_, size_);
  if (has_handle_) (void)call.memory_release(handle_);
}

Result<Fd> DeviceMapping::descriptor() const {
  const GpuContext::Current current(*context_);
  if (!current.made()) return current.made().error();
  int number = -1;
  if (auto exported = context_->driver().check(
          "cuMemExportToShareableHandle",
          context_->call().memory_export(&number, handle_, cuda_abi::handle_posix_fd, 0));
      !exported) {
    return exported.error();
  }
  Fd made(number);
  // The driver does not document whether it sets the flag.
  if (::fcntl(made.get(), F_SETFD, FD_CLOEXEC) != 0)
    return errno_failure("keep exported memory from children", errno);
  return made;
}

void DeviceMapping::swap(DeviceMapping& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  std::swap(has_handle_, other.has_handle_);
  std::swap(mapped_, other.mapped_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
}

}  // namespace mobula::internal
