// Device memory for tensors, within the executor's share of the GPU. What is as large as what the device maps
// at once gets a chunk of its own, so that it can be handed on, imported and given back alone; what is
// smaller shares chunks. A chunk's descriptor is what other processes import. Any thread; a lock guards it.
// It knows nothing of streams and of readers: who gives memory back knows that nothing uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "gpu/device_mapping.h"

namespace mobula::internal {

struct DeviceArenaOptions {
  std::uint64_t max_bytes = 0;              // of all chunks: the share, see gpu_share.h
  std::uint64_t kept_bytes = 256ull << 20;  // of chunks in which nothing lies
};

// Which chunk some bytes lie in, for those who import it.
struct DeviceFile {
  int fd = -1;              // the arena's, as long as the bytes live
  std::uint64_t chunk = 0;  // never used again by this process
  std::uint64_t chunk_bytes = 0;
  std::uint64_t offset = 0;
};

class DeviceArena;

// Some bytes of an arena; given back with it. Outlives the arena if need be.
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

  std::shared_ptr<Chunks> chunks_;  // the arena's, shared with what was taken from it
  std::span<std::byte> bytes_;
  DeviceFile file_;
};

class DeviceArena {
 public:
  // `closed` is told of each chunk that is gone, by whichever thread gave its last bytes back: who has
  // imported it is to let go, since the memory is free only then.
  DeviceArena(std::shared_ptr<const GpuContext> context, DeviceArenaOptions options,
              std::function<void(std::uint64_t chunk)> closed = nullptr);

  // `size` bytes (at least 1) at a multiple of 256. resource_exhausted beyond the share, or when the device
  // has no such memory, with the numbers.
  Result<DeviceBytes> take(std::uint64_t size);
  // The bytes around an address that was taken here; nothing for any other.
  std::optional<DeviceFile> file_of(const void* address) const;

  std::uint64_t used_bytes() const;
  std::uint64_t chunk_bytes() const;
  const std::shared_ptr<const GpuContext>& context() const;

 private:
  std::shared_ptr<DeviceBytes::Chunks> chunks_;
};

}  // namespace mobula::internal
