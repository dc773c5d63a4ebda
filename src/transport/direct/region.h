// Stretches of memory that transports read and write, and where they lie. Values; any thread. They
// own nothing: who names a region keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "gpu/device_uuid.h"

namespace mobula::internal {

// Values travel: append only.
enum class MemoryKind : std::uint8_t { host = 1, pinned_host = 2, device = 3 };

constexpr std::uint8_t kind_bit(MemoryKind kind) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
}
inline constexpr std::uint8_t host_kinds =
    kind_bit(MemoryKind::host) | kind_bit(MemoryKind::pinned_host);

struct MemoryPlace {
  MemoryKind kind = MemoryKind::host;
  DeviceUuid device{};  // of device memory

  bool on_host() const { return kind != MemoryKind::device; }
  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

// The file behind host memory: a memfd that is sealed against shrinking; or what stands for a chunk of
// device memory, of which the descriptor says neither which it is nor how large. The descriptor is the
// owner's, for as long as the region is offered.
struct MemoryFile {
  int fd = -1;
  std::uint64_t offset = 0;       // of the region's first byte
  std::uint64_t chunk = 0;        // of device memory: its number, which its owner uses once
  std::uint64_t chunk_bytes = 0;  // of device memory
  std::uint64_t block = 0;        // of an arena: its number, which it uses once
};

struct SourceRegion {
  std::span<const std::byte> bytes;
  MemoryPlace place = {};
  std::optional<MemoryFile> file = std::nullopt;  // none: nothing is known of what backs it
};

struct TargetRegion {
  std::span<std::byte> bytes;
  MemoryPlace place = {};
};

}  // namespace mobula::internal
