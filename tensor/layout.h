// Arithmetic of shapes and strides: sizes, order, overlaps, and changed shapes of the same
// elements. Results that exceed 63 bits are reported instead of computed. Strides are not negative.
// Thread: any (pure). Units: elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mobula::internal::tensor {

inline constexpr std::size_t max_dimensions = 64;

using Numbers = std::vector<std::int64_t>;
using NumberSpan = std::span<const std::int64_t>;

// Both operands must be non-negative. Empty if the result exceeds 63 bits.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b);

// Number of elements of a shape. Empty if elements of `item` bytes exceed 2^63 bytes, with each
// extent of 0 counted as 1, so that strides fit, too. Extents must be non-negative.
std::optional<std::int64_t> element_count(NumberSpan shape, std::size_t item);

// Strides of contiguous elements in row-major order. The shape must have an `element_count`.
Numbers contiguous_strides(NumberSpan shape);
bool is_contiguous(NumberSpan shape, NumberSpan strides);

// True if the elements fill a memory range without gaps and overlaps, in any order of dimensions.
bool is_dense(NumberSpan shape, NumberSpan strides);

// True if two elements may share a location. Can be a false positive for unusual strides.
bool may_overlap(NumberSpan shape, NumberSpan strides);

// Distance from the first element to the end of the last one; 0 without elements. Empty: exceeds 63
// bits.
std::optional<std::int64_t> extent(NumberSpan shape, NumberSpan strides);

// Strides that give the same elements another shape with the same element count; empty if no such
// strides exist.
std::optional<Numbers> strides_in_shape(NumberSpan shape, NumberSpan strides, NumberSpan wanted);

}  // namespace mobula::internal::tensor
