#include "tensor/packing.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mobula::internal::tensor {
namespace {

// A dimension, or several that merge into one. Steps are bytes.
struct Loop {
  std::int64_t extent;
  std::int64_t from_step;
  std::int64_t to_step;
};

// Last dimension first, without dimensions of extent 1.
std::vector<Loop> loops_over(NumberSpan shape, NumberSpan strides, std::size_t item) {
  std::vector<Loop> loops;
  const auto bytes = static_cast<std::int64_t>(item);
  std::int64_t to_step = bytes;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    const std::int64_t from_step = strides[i] * bytes;
    if (!loops.empty() && loops.back().from_step * loops.back().extent == from_step) {
      loops.back().extent *= shape[i];
    } else {
      loops.push_back({shape[i], from_step, to_step});
    }
    to_step *= shape[i];
  }
  return loops;
}

// Calls `body(to, from)` for each combination of `loops`; the first loop varies fastest.
template <class Body>
void for_each(const std::vector<Loop>& loops, std::byte* to, const std::byte* from,
              const Body& body) {
  std::vector<std::int64_t> at(loops.size(), 0);
  while (true) {
    body(to, from);
    std::size_t i = 0;
    for (; i < loops.size(); ++i) {
      to += loops[i].to_step;
      from += loops[i].from_step;
      if (++at[i] < loops[i].extent) break;
      to -= loops[i].to_step * loops[i].extent;
      from -= loops[i].from_step * loops[i].extent;
      at[i] = 0;
    }
    if (i == loops.size()) return;
  }
}

// Copies a plane in tiles that fit the L1 cache, because one side is accessed with large strides.
template <std::size_t item>
void copy_plane(std::byte* to, const std::byte* from, const Loop& inner, const Loop& outer) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t row = 0; row < outer.extent; row += tile) {
    const std::int64_t rows = std::min(tile, outer.extent - row);
    for (std::int64_t column = 0; column < inner.extent; column += tile) {
      const std::int64_t columns = std::min(tile, inner.extent - column);
      for (std::int64_t r = row; r < row + rows; ++r) {
        std::byte* into = to + r * outer.to_step + column * inner.to_step;
        const std::byte* out_of = from + r * outer.from_step + column * inner.from_step;
        for (std::int64_t c = 0; c < columns; ++c) {
          std::memcpy(into, out_of, item);
          into += inner.to_step;
          out_of += inner.from_step;
        }
      }
    }
  }
}

using CopyPlane = void (*)(std::byte*, const std::byte*, const Loop&, const Loop&);

CopyPlane copy_plane_of(std::size_t item) {
  switch (item) {
    case 1: return copy_plane<1>;
    case 2: return copy_plane<2>;
    case 4: return copy_plane<4>;
    case 8: return copy_plane<8>;
    default: return copy_plane<16>;
  }
}

}  // namespace

void pack(std::byte* into, const std::byte* first, NumberSpan shape, NumberSpan strides,
          std::size_t item) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::vector<Loop> loops = loops_over(shape, strides, item);
  if (loops.empty()) {
    std::memcpy(into, first, item);
    return;
  }
  const Loop inner = loops.front();
  loops.erase(loops.begin());
  if (inner.from_step == inner.to_step) {
    const auto row_bytes = static_cast<std::size_t>(inner.extent) * item;
    for_each(loops, into, first, [row_bytes](std::byte* to, const std::byte* from) {
      std::memcpy(to, from, row_bytes);
    });
    return;
  }
  Loop outer{1, 0, 0};
  const auto nearest = std::ranges::min_element(loops, {}, &Loop::from_step);
  if (nearest != loops.end()) {
    outer = *nearest;
    loops.erase(nearest);
  }
  const CopyPlane copy = copy_plane_of(item);
  for_each(loops, into, first,
           [&](std::byte* to, const std::byte* from) { copy(to, from, inner, outer); });
}

std::optional<std::vector<PackedRows>> packed_rows(NumberSpan shape, NumberSpan strides,
                                                   std::size_t item, std::size_t most_rows) {
  std::vector<PackedRows> rows;
  if (element_count(shape, item).value_or(0) == 0) return rows;
  std::vector<Loop> loops = loops_over(shape, strides, item);
  PackedRows one{.width = static_cast<std::int64_t>(item)};
  if (!loops.empty() && loops.front().from_step == one.width) {
    one.width *= loops.front().extent;
    loops.erase(loops.begin());
  }
  // Overlapping rows become separate entries.
  if (!loops.empty() && loops.front().from_step >= one.width) {
    one.height = loops.front().extent;
    one.pitch = loops.front().from_step;
    loops.erase(loops.begin());
  }
  std::size_t count = 1;
  for (const Loop& each : loops) {
    if (static_cast<std::size_t>(each.extent) > most_rows / count) return std::nullopt;
    count *= static_cast<std::size_t>(each.extent);
  }
  for_each(loops, nullptr, nullptr, [&](const std::byte* to, const std::byte* from) {
    one.into = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(to));
    one.from = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(from));
    rows.push_back(one);
  });
  return rows;
}

}  // namespace mobula::internal::tensor
