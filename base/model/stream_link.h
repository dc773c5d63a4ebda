// Contents of a position of a stream that other processes may read: the stream, the index of the
// item, and the terms by which a reader reports its progress.
// Thread: any (plain values). Errors: std::nullopt for bytes of another kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

struct StreamLink {
  ObjectId stream;              // first position
  std::uint64_t index = 0;      // index of the item
  std::uint32_t window = 0;     // window of the call
  std::int64_t size_bytes = 0;  // size of the item
  MOBULA_FIELDS(stream, index, window, size_bytes);
  friend bool operator==(const StreamLink&, const StreamLink&) = default;
};

std::vector<std::byte> to_bytes(const StreamLink& link);
// Positions of the previous release have one byte, and have no link.
std::optional<StreamLink> stream_link(std::span<const std::byte> bytes);

}  // namespace mobula::internal
