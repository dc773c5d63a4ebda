// Division of a large tensor into chunks, which readers relay before they have the whole tensor.
// Both sides compute the same division, because they agree on `chunk_bytes`.
// Thread: any (pure).
#pragma once

#include <cstdint>
#include <vector>

#include "base/id.h"

namespace mobula::internal::transfer {

struct RegionSpan {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  friend bool operator==(const RegionSpan&, const RegionSpan&) = default;
};

// Chunks of one tensor; a larger tensor has larger chunks.
inline constexpr std::uint64_t max_parts = 256;

// Bytes of each chunk except the last: `chunk_bytes` (> 0) or a multiple of it.
inline std::uint64_t bytes_of_part(std::uint64_t size_bytes, std::uint64_t chunk_bytes) {
  const std::uint64_t least = chunk_bytes * max_parts;
  return chunk_bytes * (size_bytes <= least ? 1 : (size_bytes - 1) / least + 1);
}

// At least one. Chunks are numbered from 1.
inline std::uint32_t parts_of(std::uint64_t size_bytes, std::uint64_t chunk_bytes) {
  const std::uint64_t each = bytes_of_part(size_bytes, chunk_bytes);
  return size_bytes == 0 ? 1 : static_cast<std::uint32_t>((size_bytes - 1) / each + 1);
}

// Range of chunk `part`, at most `parts_of`; 0 is the whole tensor.
inline RegionSpan span_of(std::uint64_t size_bytes, std::uint64_t chunk_bytes, std::uint32_t part) {
  if (part == 0) return {0, size_bytes};
  const std::uint64_t each = bytes_of_part(size_bytes, chunk_bytes);
  const std::uint64_t offset = each * (part - 1);
  return {offset, size_bytes - offset < each ? size_bytes - offset : each};
}

// Order in which `reader` requests the chunks. Readers start at different chunks, so that they soon
// have chunks to exchange.
inline std::vector<std::uint32_t> order_of_parts(std::uint32_t parts, ProcessId reader) {
  std::vector<std::uint32_t> order;
  const auto first = static_cast<std::uint32_t>(reader.bits().low % parts);
  for (std::uint32_t i = 0; i < parts; ++i) order.push_back(1 + (first + i) % parts);
  return order;
}

}  // namespace mobula::internal::transfer
