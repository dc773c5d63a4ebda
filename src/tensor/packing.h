// Copies strided elements into a run of memory, in the order in which contiguous elements lie. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/layout.h"

namespace mobula::internal::tensor {

// `into` has room for all elements and does not meet them. Elements have 1, 2, 4, 8 or 16 bytes;
// `first` is where the first of them lies, at any address.
void pack(std::byte* into, const std::byte* first, NumberSpan shape, NumberSpan strides,
          std::size_t item);

// The same order, as stretches that something else copies: in bytes from the first element.
struct PackedRows {
  std::int64_t from = 0;  // in the strided elements
  std::int64_t into = 0;  // in the run
  std::int64_t width = 0;
  std::int64_t height = 1;
  std::int64_t pitch = 0;  // of the strided elements; those of the run follow each other
};
// Nothing where they would be more than `most_rows`.
std::optional<std::vector<PackedRows>> packed_rows(NumberSpan shape, NumberSpan strides,
                                                   std::size_t item, std::size_t most_rows);

}  // namespace mobula::internal::tensor
