// The element types of tensors, and the C++ types that correspond to them.
// Thread: owner (plain values).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <mobula/detail/export.h>

namespace mobula {

// The type of a tensor's elements. The numbers are part of the wire format: append only.
enum class DType : std::uint8_t {
  boolean = 0,         // bool, 1 byte
  uint8 = 1,           // unsigned 8-bit integer
  uint16 = 2,          // unsigned 16-bit integer
  uint32 = 3,          // unsigned 32-bit integer
  uint64 = 4,          // unsigned 64-bit integer
  int8 = 5,            // signed 8-bit integer
  int16 = 6,           // signed 16-bit integer
  int32 = 7,           // signed 32-bit integer
  int64 = 8,           // signed 64-bit integer
  float16 = 9,         // IEEE 754 half precision
  bfloat16 = 10,       // 8 exponent bits, 7 mantissa bits
  float32 = 11,        // IEEE 754 single precision
  float64 = 12,        // IEEE 754 double precision
  complex64 = 13,      // two float32
  complex128 = 14,     // two float64
  float8_e4m3fn = 15,  // 4 exponent bits, 3 mantissa bits, no infinity
  float8_e5m2 = 16,    // 5 exponent bits, 2 mantissa bits
  float8_e8m0 = 17,    // 8 exponent bits, a power of two
};

// Returns a name such as "float32", or "unknown" for a number without a type.
MOBULA_API std::string_view dtype_name(DType dtype);
// Returns the size of one element in bytes, or 0 for a number without a type.
MOBULA_API std::size_t item_bytes(DType dtype);

namespace detail {

template <class T>
constexpr bool has_dtype() {
  return std::is_same_v<T, bool> || (std::is_integral_v<T> && sizeof(T) <= 8) ||
         std::is_same_v<T, float> || std::is_same_v<T, double> ||
         std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
}

template <class T>
constexpr DType dtype_for() {
  static_assert(
      has_dtype<T>(),
      "mobula: no dtype is this type; specialize mobula::dtype_of for a type of 16-bit or "
      "8-bit floats, or look at the bytes (std::byte)");
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_same_v<T, float>) return DType::float32;
  if constexpr (std::is_same_v<T, double>) return DType::float64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return DType::complex64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return DType::complex128;
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? DType::int8 : DType::uint8;
  if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? DType::int16 : DType::uint16;
  if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? DType::int32 : DType::uint32;
  return std::is_signed_v<T> ? DType::int64 : DType::uint64;
}

}  // namespace detail

// The dtype of elements of the C++ type T. Specialize it for types outside the language:
//   template <> inline constexpr mobula::DType mobula::dtype_of<__half> = mobula::DType::float16;
template <class T>
inline constexpr DType dtype_of = detail::dtype_for<T>();

}  // namespace mobula
