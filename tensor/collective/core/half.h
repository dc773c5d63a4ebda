// Conversion between 16-bit and 32-bit floats: round to nearest, ties to even. NaNs stay NaNs, and
// values above the range become infinite. The code has no branches on data, so that compilers
// vectorize loops over it.
// Thread: any (pure).
#pragma once

#include <bit>
#include <cstdint>

namespace mobula::internal::collective {

inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

inline float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  // A product moves the bits to the exponent range of 32-bit floats. It is exact, also for
  // subnormal numbers.
  const float moved = std::bit_cast<float>(rest) * 0x1p112f;
  const std::uint32_t special = rest | 0x7f800000u;  // infinite or NaN
  const std::uint32_t magnitude =
      rest >= 0x0f800000u ? special : std::bit_cast<std::uint32_t>(moved);
  return std::bit_cast<float>(sign | magnitude);
}

inline std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns the last bit of a subnormal 16-bit float with the last bit of the sum, so the
  // addition rounds.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                              std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t infinite = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t finite = magnitude < (113u << 23) ? small : normal;
  return static_cast<std::uint16_t>(sign | (magnitude >= 0x477ff000u ? infinite : finite));
}

}  // namespace mobula::internal::collective
