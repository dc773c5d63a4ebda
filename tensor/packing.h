// Copies strided elements into a contiguous memory range in row-major order.
// Thread: any (pure).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/layout.h"

namespace mobula::internal::tensor {

// `into` must have space for all elements and must not overlap them. `item` is 1, 2, 4, 8, or 16
// bytes; `first` is the address of the first element and need not be aligned.
void pack(std::byte* into, const std::byte* first, NumberSpan shape, NumberSpan strides,
          std::size_t item);

// The same order as a list of row copies, for another copy engine. Offsets are in bytes from the
// first element.
struct PackedRows {
  std::int64_t from = 0;  // in the strided elements
  std::int64_t into = 0;  // in the contiguous range
  std::int64_t width = 0;
  std::int64_t height = 1;
  std::int64_t pitch = 0;  // pitch of the strided elements; rows of the range are adjacent
};
// Empty if more than `most_rows` entries would be needed.
std::optional<std::vector<PackedRows>> packed_rows(NumberSpan shape, NumberSpan strides,
                                                   std::size_t item, std::size_t most_rows);

}  // namespace mobula::internal::tensor
