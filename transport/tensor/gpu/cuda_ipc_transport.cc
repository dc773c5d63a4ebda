#include "transport/tensor/gpu/cuda_ipc_transport.h"

#include <utility>

namespace mobula::internal {
namespace {

constexpr PathCost same_device_cost{50us, 1e12};
constexpr PathCost peer_device_cost{50us, 1e11};
constexpr PathCost to_host_cost{50us, 2e10};

// A chunk of another process. The device's thread unmaps it, regardless of the thread of the last
// user.
class ImportedChunk final : public ReadMapping {
 public:
  ImportedChunk(DeviceMapping mapping, std::shared_ptr<DeviceCopies::Poster> poster)
      : ReadMapping(mapping.bytes()),
        mapping_(std::make_shared<DeviceMapping>(std::move(mapping))),
        poster_(std::move(poster)) {}
  ~ImportedChunk() override {
    poster_->post([mapping = std::move(mapping_)]() mutable { mapping.reset(); });
  }

 private:
  std::shared_ptr<DeviceMapping> mapping_;        // shared, because posted tasks are copied
  std::shared_ptr<DeviceCopies::Poster> poster_;  // shared with DeviceCopies
};

}  // namespace

Availability CudaIpcTransport::probe() {
  const auto driver = CudaDriver::open();
  if (!driver) return {false, "cuda_ipc: " + driver.error().text};
  return {true, "by descriptors of " + (*driver)->library()};
}

CudaIpcTransport::CudaIpcTransport(EventLoop& loop, CudaIpcOptions options, ShmEndpoint self,
                                   std::shared_ptr<const GpuContext> context)
    : MappedTransport(loop, std::move(self), options.limits),
      options_(std::move(options)),
      context_(std::move(context)) {
  caps_.scope = TransportScope::machine;
  caps_.source_kinds = kind_bit(MemoryKind::device);
  caps_.target_kinds = static_cast<std::uint8_t>(kind_bit(MemoryKind::device) | host_kinds);
  caps_.maps = true;
}

CudaIpcTransport::~CudaIpcTransport() = default;

Result<std::unique_ptr<CudaIpcTransport>> CudaIpcTransport::create(
    EventLoop& loop, ProcessId process, std::shared_ptr<const GpuContext> context,
    CudaIpcOptions options) {
  auto domain = domain_of_this_process(false);
  if (!domain) return domain.error();
  auto copies = DeviceCopies::create(loop, context, options.copying);
  if (!copies) return copies.error();
  ShmEndpoint self{DirectKind::cuda_ipc, process, *domain, options.socket};
  const std::uint64_t max_mapped_bytes = options.max_mapped_bytes;
  std::unique_ptr<CudaIpcTransport> made(
      new CudaIpcTransport(loop, std::move(options), std::move(self), context));
  MappedMedium medium;
  medium.kind = DirectKind::cuda_ipc;
  medium.source_kinds = made->caps_.source_kinds;
  medium.target_kinds = made->caps_.target_kinds;
  medium.map = [copies = copies->get(), context](Fd descriptor, std::uint64_t size_bytes,
                                                 MappedMedium::Made done) {
    // Shared, because functions are copied.
    auto fd = std::make_shared<const Fd>(std::move(descriptor));
    copies->run([fd, size_bytes, context, poster = copies->poster(), done = std::move(done)] {
      using Mapped = Result<std::shared_ptr<const ReadMapping>>;
      auto mapping = DeviceMapping::import(context, *fd, size_bytes);
      const Mapped answer =
          mapping
              ? Mapped(std::make_shared<const ImportedChunk>(std::move(mapping).value(), poster))
              : Mapped(mapping.error());
      return std::function<void()>([done, answer] { done(answer); });
    });
  };
  made->device_copies_ = copies->get();
  auto started =
      made->start(std::move(medium), std::move(copies).value(), nullptr, max_mapped_bytes);
  if (!started) return started.error();
  return made;
}

Result<PathCost> CudaIpcTransport::reach(const Peer& peer, const MemoryLocation& source,
                                         const MemoryLocation& target) const {
  if (source.on_host()) {
    return failure(ErrorCode::invalid_argument, "cuda_ipc: the bytes are in host memory");
  }
  if (!target.on_host() && target.device != context_->uuid()) {
    return failure(ErrorCode::invalid_argument, "cuda_ipc: bytes for " + to_string(target.device) +
                                                    " by way of " + to_string(context_->uuid()));
  }
  if (auto same = check_same_domain(peer); !same) return same.error();
  const bool same_device = source.device == context_->uuid();
  if (!same_device && !options_.peers.contains(source.device)) {
    return failure(ErrorCode::unavailable, "cuda_ipc: " + to_string(context_->uuid()) +
                                               " has no peer access to " +
                                               to_string(source.device));
  }
  return target.on_host() ? to_host_cost : same_device ? same_device_cost : peer_device_cost;
}

std::function<void(std::uint64_t)> CudaIpcTransport::closed() {
  return [forget = forgets()](std::uint64_t chunk) { forget(chunk_key(chunk)); };
}

SourceRegion region_of(const DeviceUuid& device, std::span<const std::byte> bytes,
                       const DeviceFile& file) {
  return {.bytes = bytes,
          .location = {MemoryKind::device, device},
          .file = MemoryFile{file.fd, file.offset, file.chunk, file.chunk_bytes}};
}

}  // namespace mobula::internal
