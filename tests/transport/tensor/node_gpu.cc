#include "transport/tensor/node_gpu.h"

#include <stdlib.h>

#include <utility>

#include "transport/tensor/gpu/cuda_ipc_transport.h"
#include "transport/tensor/gpu/nccl_transport.h"

namespace mobula::internal::direct_test {
namespace {

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// A lost context cannot be read, so the bytes in host memory stay unchanged.
void copy(const GpuContext& context, const void* to, const void* from, std::size_t size) {
  if (size == 0) return;
  const GpuContext::Current current(context);
  auto status = context.call().copy_async(address_of(to), address_of(from), size, nullptr);
  if (status == cuda_abi::success) status = context.call().stream_synchronize(nullptr);
  MOBULA_CHECK(status == cuda_abi::success || is_sticky(status), "a copy of the test");
}

}  // namespace

Result<std::unique_ptr<NodeGpu>> NodeGpu::open(const NodeOptions& options) {
  ::setenv("MOBULA_SIMULATED_GPU", options.machine.c_str(), 1);
  const std::string mask = options.mask.empty() ? std::to_string(options.device) : options.mask;
  ::setenv("CUDA_VISIBLE_DEVICES", mask.c_str(), 1);
  if (!options.nccl_host.empty()) ::setenv("NCCL_HOSTID", options.nccl_host.c_str(), 1);
  const auto driver = CudaDriver::open(SIMULATED_CUDA);
  if (!driver) return driver.error();
  const auto devices = GpuContext::visible(**driver);
  if (!devices) return devices.error();
  auto context = GpuContext::open(*driver, devices->at(0));
  if (!context) return context.error();
  auto made = std::make_unique<NodeGpu>();
  made->options_ = options;
  made->context_ = std::move(context).value();
  made->closed_ = std::make_shared<std::function<void(std::uint64_t)>>();
  const DeviceArenaOptions share{.max_bytes = 3ull << 30, .max_empty_bytes = 128ull << 20};
  made->sources_ = std::make_shared<DeviceArena>(made->context_, share,
                                                 [closed = made->closed_](std::uint64_t chunk) {
                                                   if (*closed) (*closed)(chunk);
                                                 });
  made->targets_ = std::make_shared<DeviceArena>(made->context_, share);
  return made;
}

Result<std::unique_ptr<TensorTransport>> NodeGpu::make_transport(EventLoop& loop,
                                                                 ProcessId process) {
  if (options_.way == Way::nccl) {
    const auto library = NcclLibrary::open(SIMULATED_NCCL);
    if (!library) return library.error();
    NcclOptions options;
    options.host = options_.nccl_host;
    options.shutdown_timeout = std::chrono::milliseconds(options_.patience_ms);
    options.lost = [this](const std::string&) { lost_ = true; };
    auto made = NcclTransport::create(loop, process, context_, *library, options);
    if (!made) return made.error();
    return std::unique_ptr<TensorTransport>(std::move(made).value());
  }
  CudaIpcOptions options;
  options.socket = options_.directory + "/" + process.brief();
  for (const std::string& each : options_.reached) options.peers.insert(*device_uuid_from(each));
  options.copying.slice_bytes = 4u << 20;  // so that short transfers can be interrupted midway
  auto made = CudaIpcTransport::create(loop, process, context_, options);
  if (!made) return made.error();
  *closed_ = (*made)->closed();
  return std::unique_ptr<TensorTransport>(std::move(made).value());
}

SourceRegion NodeGpu::source(std::span<std::byte> bytes, const DeviceFile& file) const {
  return region_of(context_->uuid(), bytes, file);
}

void NodeGpu::write(std::span<std::byte> device, std::span<const std::byte> host) const {
  copy(*context_, device.data(), host.data(), host.size());
}

void NodeGpu::read(std::span<std::byte> host, std::span<const std::byte> device) const {
  copy(*context_, host.data(), device.data(), host.size());
}

}  // namespace mobula::internal::direct_test
