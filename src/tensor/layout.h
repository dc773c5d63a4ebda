// Arithmetic of shapes and strides, in elements: sizes, order, overlaps, other looks at the same
// elements. Trusts no number: what does not fit 63 bits is said, never computed. Strides are not
// negative. Pure; any thread.
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

// Neither may be negative. Nothing where the result has more than 63 bits.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b);

// How many elements a shape has; nothing where they, each of `item` bytes, are more than 2^63 bytes
// with every extent of 0 taken for 1 (so that strides fit as well). Extents are not negative.
std::optional<std::int64_t> element_count(NumberSpan shape, std::size_t item);

// Of elements that follow each other, the last dimension's first. The shape has an element_count.
Numbers contiguous_strides(NumberSpan shape);
bool is_contiguous(NumberSpan shape, NumberSpan strides);

// Whether the elements fill a run of memory without gaps or overlaps, in any order of dimensions.
bool is_dense(NumberSpan shape, NumberSpan strides);

// Whether two elements may lie at one place. May say so of unusual strides where it is not true.
bool may_overlap(NumberSpan shape, NumberSpan strides);

// From the first element to the end of the last one; 0 without elements. Nothing: it does not fit.
std::optional<std::int64_t> extent(NumberSpan shape, NumberSpan strides);

// The strides with which the same elements have another shape of as many; nothing where there are
// none.
std::optional<Numbers> strides_in_shape(NumberSpan shape, NumberSpan strides, NumberSpan wanted);

}  // namespace mobula::internal::tensor
