// Memory ranges that transports read and write, and their location.
// Thread: any (values). Owner: the creator of a region keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "device/gpu/device_uuid.h"

namespace mobula::internal {

// The values are sent to other processes: append only.
enum class MemoryKind : std::uint8_t { host = 1, pinned_host = 2, device = 3 };

constexpr std::uint8_t kind_bit(MemoryKind kind) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
}
inline constexpr std::uint8_t host_kinds =
    kind_bit(MemoryKind::host) | kind_bit(MemoryKind::pinned_host);

struct MemoryLocation {
  MemoryKind kind = MemoryKind::host;
  DeviceUuid device{};  // only for device memory

  bool on_host() const { return kind != MemoryKind::device; }
  friend bool operator==(const MemoryLocation&, const MemoryLocation&) = default;
};

// The file of a region: a memfd sealed against shrinking, or the handle of a chunk of device
// memory. The handle of a chunk reveals neither its identity nor its size. The owner of the
// descriptor keeps it while the region is offered.
struct MemoryFile {
  int fd = -1;
  std::uint64_t offset = 0;       // offset of the first byte of the region
  std::uint64_t chunk = 0;        // device memory: chunk number, never reused by its owner
  std::uint64_t chunk_bytes = 0;  // device memory: size of the chunk
  std::uint64_t block = 0;        // arena: block number, never reused
};

struct SourceRegion {
  std::span<const std::byte> bytes;
  MemoryLocation location = {};
  std::optional<MemoryFile> file = std::nullopt;  // nullopt: the backing of the memory is unknown
};

struct TargetRegion {
  std::span<std::byte> bytes;
  MemoryLocation location = {};
  bool untouched = false;  // fresh private anonymous memory, which the transport may populate
};

}  // namespace mobula::internal
