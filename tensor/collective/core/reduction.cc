#include "tensor/collective/core/reduction.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "tensor/collective/core/half.h"

namespace mobula::internal::collective {
namespace {

// Elements are processed in blocks that fit the L1 cache, copied to aligned memory.
constexpr std::size_t block_elements = 512;

template <class T>
struct Wrapping {
  using Type = T;
};
template <class T>
requires(std::is_integral_v<T>) struct Wrapping<T> {
  // Unsigned and at least as wide as int, so that neither sums nor products of promoted operands
  // overflow.
  using Type = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
};

template <ReduceKind kind, class T>
inline T reduced(T left, T right) {
  using Wide = typename Wrapping<T>::Type;
  if constexpr (kind == ReduceKind::sum) {
    return static_cast<T>(static_cast<Wide>(left) + static_cast<Wide>(right));
  } else if constexpr (kind == ReduceKind::product) {
    return static_cast<T>(static_cast<Wide>(left) * static_cast<Wide>(right));
  } else if constexpr (std::is_floating_point_v<T>) {
    // Comparisons with a NaN are false, so a NaN on either side is the result.
    const bool take_left = kind == ReduceKind::min ? left < right : left > right;
    const T chosen = take_left ? left : right;
    return left != left ? left : chosen;  // NOLINT(misc-redundant-expression): true for a NaN
  } else if constexpr (!std::is_arithmetic_v<T>) {
    return left;  // complex numbers, which `check` rejects
  } else {
    return kind == ReduceKind::min ? std::min(left, right) : std::max(left, right);
  }
}

// Each nonzero byte counts as true.
template <ReduceKind kind>
inline std::uint8_t joined(std::uint8_t left, std::uint8_t right) {
  const bool any = kind == ReduceKind::sum || kind == ReduceKind::max;
  const bool a = left != 0;
  const bool b = right != 0;
  return any ? (a || b) : (a && b);
}

template <class T, ReduceKind kind>
void combine_blocks(std::size_t count, const std::byte* left, const std::byte* right,
                    std::byte* to) {
  std::array<T, block_elements> a;
  std::array<T, block_elements> b;
  for (std::size_t at = 0; at < count; at += block_elements) {
    const std::size_t some = std::min(block_elements, count - at);
    std::memcpy(a.data(), left + at * sizeof(T), some * sizeof(T));
    std::memcpy(b.data(), right + at * sizeof(T), some * sizeof(T));
    for (std::size_t i = 0; i < some; ++i) a[i] = reduced<kind>(a[i], b[i]);
    std::memcpy(to + at * sizeof(T), a.data(), some * sizeof(T));
  }
}

template <ReduceKind kind>
void combine_booleans(std::size_t count, const std::byte* left, const std::byte* right,
                      std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::byte>(
        joined<kind>(static_cast<std::uint8_t>(left[i]), static_cast<std::uint8_t>(right[i])));
  }
}

using Widen = float (*)(std::uint16_t);
using Narrow = std::uint16_t (*)(float);

template <ReduceKind kind, Widen widen, Narrow narrow>
void fold_halves(std::size_t count, std::span<const std::byte* const> operands, double scale,
                 std::byte* to) {
  std::array<float, block_elements> sum;
  std::array<std::uint16_t, block_elements> bits;
  const auto factor = static_cast<float>(scale);
  for (std::size_t at = 0; at < count; at += block_elements) {
    const std::size_t some = std::min(block_elements, count - at);
    for (std::size_t each = 0; each < operands.size(); ++each) {
      std::memcpy(bits.data(), operands[each] + at * 2, some * 2);
      if (each == 0) {
        for (std::size_t i = 0; i < some; ++i) sum[i] = widen(bits[i]);
      } else {
        for (std::size_t i = 0; i < some; ++i) sum[i] = reduced<kind>(sum[i], widen(bits[i]));
      }
    }
    if (scale != 1) {
      for (std::size_t i = 0; i < some; ++i) sum[i] *= factor;
    }
    for (std::size_t i = 0; i < some; ++i) bits[i] = narrow(sum[i]);
    std::memcpy(to + at * 2, bits.data(), some * 2);
  }
}

template <class T>
void scale_blocks(std::size_t count, double by, std::byte* elements) {
  std::array<T, block_elements> a;
  using Real = decltype(std::abs(T()));
  const auto factor = static_cast<Real>(by);
  for (std::size_t at = 0; at < count; at += block_elements) {
    const std::size_t some = std::min(block_elements, count - at);
    std::memcpy(a.data(), elements + at * sizeof(T), some * sizeof(T));
    for (std::size_t i = 0; i < some; ++i) a[i] *= factor;
    std::memcpy(elements + at * sizeof(T), a.data(), some * sizeof(T));
  }
}

template <ReduceKind kind>
void combine_as(DType dtype, std::size_t bytes, const std::byte* left, const std::byte* right,
                std::byte* to) {
  const std::size_t count = bytes / item_bytes(dtype);
  switch (dtype) {
    case DType::boolean: return combine_booleans<kind>(count, left, right, to);
    case DType::uint8: return combine_blocks<std::uint8_t, kind>(count, left, right, to);
    case DType::uint16: return combine_blocks<std::uint16_t, kind>(count, left, right, to);
    case DType::uint32: return combine_blocks<std::uint32_t, kind>(count, left, right, to);
    case DType::uint64: return combine_blocks<std::uint64_t, kind>(count, left, right, to);
    case DType::int8: return combine_blocks<std::int8_t, kind>(count, left, right, to);
    case DType::int16: return combine_blocks<std::int16_t, kind>(count, left, right, to);
    case DType::int32: return combine_blocks<std::int32_t, kind>(count, left, right, to);
    case DType::int64: return combine_blocks<std::int64_t, kind>(count, left, right, to);
    case DType::float32: return combine_blocks<float, kind>(count, left, right, to);
    case DType::float64: return combine_blocks<double, kind>(count, left, right, to);
    case DType::complex64: return combine_blocks<std::complex<float>, kind>(count, left, right, to);
    case DType::complex128:
      return combine_blocks<std::complex<double>, kind>(count, left, right, to);
    case DType::float16: {
      const std::byte* both[] = {left, right};
      return fold_halves<kind, &from_float16, &to_float16>(count, both, 1, to);
    }
    case DType::bfloat16: {
      const std::byte* both[] = {left, right};
      return fold_halves<kind, &from_bfloat16, &to_bfloat16>(count, both, 1, to);
    }
    default: break;
  }
  MOBULA_CHECK(false, "a dtype that is not reduced");
}

template <ReduceKind kind>
void fold_as(DType dtype, std::size_t bytes, std::span<const std::byte* const> operands, double by,
             std::byte* to) {
  if (dtype == DType::float16)
    return fold_halves<kind, &from_float16, &to_float16>(bytes / 2, operands, by, to);
  if (dtype == DType::bfloat16)
    return fold_halves<kind, &from_bfloat16, &to_bfloat16>(bytes / 2, operands, by, to);
  // Processed by blocks, so that the data stays in the cache; `to` may be any of the operands.
  std::array<std::byte, block_elements * 16> block;
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    const std::size_t some = std::min(block.size(), bytes - at);
    std::memcpy(block.data(), operands[0] + at, some);
    for (std::size_t each = 1; each < operands.size(); ++each) {
      combine_as<kind>(dtype, some, block.data(), operands[each] + at, block.data());
    }
    if (by != 1) scale(dtype, some, by, block.data());
    std::memcpy(to + at, block.data(), some);
  }
}

}  // namespace

void combine(DType dtype, ReduceKind kind, std::size_t bytes, const std::byte* left,
             const std::byte* right, std::byte* to) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::average: return combine_as<ReduceKind::sum>(dtype, bytes, left, right, to);
    case ReduceKind::product: return combine_as<ReduceKind::product>(dtype, bytes, left, right, to);
    case ReduceKind::min: return combine_as<ReduceKind::min>(dtype, bytes, left, right, to);
    case ReduceKind::max: return combine_as<ReduceKind::max>(dtype, bytes, left, right, to);
  }
}

void fold(DType dtype, ReduceKind kind, std::size_t bytes,
          std::span<const std::byte* const> operands, double by, std::byte* to) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::average: return fold_as<ReduceKind::sum>(dtype, bytes, operands, by, to);
    case ReduceKind::product: return fold_as<ReduceKind::product>(dtype, bytes, operands, by, to);
    case ReduceKind::min: return fold_as<ReduceKind::min>(dtype, bytes, operands, by, to);
    case ReduceKind::max: return fold_as<ReduceKind::max>(dtype, bytes, operands, by, to);
  }
}

void scale(DType dtype, std::size_t bytes, double by, std::byte* elements) {
  const std::size_t count = bytes / item_bytes(dtype);
  switch (dtype) {
    case DType::float32: return scale_blocks<float>(count, by, elements);
    case DType::float64: return scale_blocks<double>(count, by, elements);
    case DType::complex64: return scale_blocks<std::complex<float>>(count, by, elements);
    case DType::complex128: return scale_blocks<std::complex<double>>(count, by, elements);
    case DType::float16:
    case DType::bfloat16: {
      const std::byte* alone[] = {elements};
      return fold(dtype, ReduceKind::sum, bytes, alone, by, elements);
    }
    default: return;
  }
}

}  // namespace mobula::internal::collective
