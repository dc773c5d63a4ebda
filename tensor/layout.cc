#include "tensor/layout.h"

#include <algorithm>
#include <limits>

namespace mobula::internal::tensor {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

struct Dimension {
  std::int64_t extent;
  std::int64_t stride;
};

// Dimensions with more than one element, by ascending stride.
std::vector<Dimension> ordered(NumberSpan shape, NumberSpan strides) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) dimensions.push_back({shape[i], strides[i]});
  }
  std::ranges::stable_sort(dimensions, {}, &Dimension::stride);
  return dimensions;
}

bool is_without_elements(NumberSpan shape) { return std::ranges::find(shape, 0) != shape.end(); }

}  // namespace

std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  if (b != 0 && a > most / b) return std::nullopt;
  return a * b;
}

std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b) {
  if (a > most - b) return std::nullopt;
  return a + b;
}

std::optional<std::int64_t> element_count(NumberSpan shape, std::size_t item) {
  std::int64_t count = 1;
  for (const std::int64_t each : shape) {
    const auto more = product(count, std::max<std::int64_t>(each, 1));
    if (!more) return std::nullopt;
    count = *more;
  }
  if (!product(count, static_cast<std::int64_t>(item))) return std::nullopt;
  return is_without_elements(shape) ? 0 : count;
}

Numbers contiguous_strides(NumberSpan shape) {
  Numbers strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

bool is_contiguous(NumberSpan shape, NumberSpan strides) {
  if (is_without_elements(shape)) return true;
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool is_dense(NumberSpan shape, NumberSpan strides) {
  if (is_without_elements(shape)) return true;
  std::int64_t step = 1;
  for (const Dimension& each : ordered(shape, strides)) {
    if (each.stride != step) return false;
    step *= each.extent;
  }
  return true;
}

bool may_overlap(NumberSpan shape, NumberSpan strides) {
  if (is_without_elements(shape)) return false;
  std::int64_t last = 0;  // offset of the last element of the smaller dimensions
  for (const Dimension& each : ordered(shape, strides)) {
    if (each.stride <= last) return true;
    const auto end = product(each.stride, each.extent - 1);
    const auto more = end ? sum(last, *end) : std::nullopt;
    if (!more) return true;
    last = *more;
  }
  return false;
}

std::optional<std::int64_t> extent(NumberSpan shape, NumberSpan strides) {
  if (is_without_elements(shape)) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto way = product(shape[i] - 1, strides[i]);
    const auto more = way ? sum(last, *way) : std::nullopt;
    if (!more) return std::nullopt;
    last = *more;
  }
  return sum(last, 1);
}

// Merges adjacent dimensions into runs (the stride equals the product of stride and extent of the
// next dimension). The wanted dimensions must fill the runs, and each of them must be within one
// run.
std::optional<Numbers> strides_in_shape(NumberSpan shape, NumberSpan strides, NumberSpan wanted) {
  if (is_without_elements(shape)) return contiguous_strides(wanted);
  std::vector<Dimension> runs;  // last dimension first
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (!runs.empty() && product(runs.back().stride, runs.back().extent) == strides[i]) {
      runs.back().extent *= shape[i];
    } else {
      runs.push_back({shape[i], strides[i]});
    }
  }
  Numbers found(wanted.size());
  std::size_t at = 0;
  std::int64_t left = runs.empty() ? 1 : runs[0].extent;
  std::int64_t step = runs.empty() ? 1 : runs[0].stride;
  for (std::size_t i = wanted.size(); i-- > 0;) {
    if (wanted[i] != 1 && left == 1) {
      if (++at >= runs.size()) return std::nullopt;
      left = runs[at].extent;
      step = runs[at].stride;
    }
    found[i] = step;
    if (wanted[i] == 1) continue;
    if (left % wanted[i] != 0) return std::nullopt;
    left /= wanted[i];
    step = product(step, wanted[i]).value_or(0);
  }
  return found;
}

}  // namespace mobula::internal::tensor
