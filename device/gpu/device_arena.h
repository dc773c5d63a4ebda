// Device memory for tensors, within the executor's share of the GPU. A large allocation gets a
// separate chunk, which can be exported and freed alone; small allocations share chunks. Other
// processes import the descriptor of a chunk.
// Thread: any; one internal lock.
// Not: streams and readers. The caller must know that nothing uses the memory that it releases.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "device/gpu/device_mapping.h"

namespace mobula::internal {

struct DeviceArenaOptions {
  std::uint64_t max_bytes = 0;  // limit for all chunks: the share, see `gpu_share.h`
  std::uint64_t max_empty_bytes = 256ull << 20;  // limit for empty chunks
};

// Location of an allocation in its chunk, for processes that import the chunk.
struct DeviceFile {
  int fd = -1;              // owned by the arena while the allocation exists
  std::uint64_t chunk = 0;  // never reused in this process
  std::uint64_t chunk_bytes = 0;
  std::uint64_t offset = 0;
};

class DeviceArena;

// An allocation of an arena; the destructor releases it. May outlive the arena.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  DeviceBytes(DeviceBytes&& other) noexcept { swap(other); }
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    DeviceBytes gone(std::move(*this));
    swap(other);
    return *this;
  }
  ~DeviceBytes();

  std::span<std::byte> bytes() const { return bytes_; }
  const DeviceFile& file() const { return file_; }

 private:
  friend class DeviceArena;
  struct Chunks;
  void swap(DeviceBytes& other) noexcept;

  std::shared_ptr<Chunks> chunks_;  // shared by the arena and its allocations
  std::span<std::byte> bytes_;
  DeviceFile file_;
};

class DeviceArena {
 public:
  // `closed` is called with each freed chunk, on the thread that released its last allocation.
  // Importers must then unmap the chunk, because the memory becomes free only after that.
  DeviceArena(std::shared_ptr<const GpuContext> context, DeviceArenaOptions options,
              std::function<void(std::uint64_t chunk)> closed = nullptr);

  // Allocates `size` bytes (at least 1), aligned to 256. Fails with resource_exhausted, and the
  // numbers, beyond the share or if the device has no memory.
  Result<DeviceBytes> take(std::uint64_t size);
  // Location of an address in this arena; empty for other addresses.
  std::optional<DeviceFile> file_of(const void* address) const;

  std::uint64_t used_bytes() const;
  std::uint64_t chunk_bytes() const;
  const std::shared_ptr<const GpuContext>& context() const;

 private:
  std::shared_ptr<DeviceBytes::Chunks> chunks_;
};

}  // namespace mobula::internal
