// The types of a tensor's elements, and which C++ types they are. Values.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <mobula/detail/export.h>

namespace mobula {

// Values travel: append only.
enum class DType : std::uint8_t {
  boolean = 0,
  uint8 = 1,
  uint16 = 2,
  uint32 = 3,
  uint64 = 4,
  int8 = 5,
  int16 = 6,
  int32 = 7,
  int64 = 8,
  float16 = 9,
  bfloat16 = 10,
  float32 = 11,
  float64 = 12,
  complex64 = 13,
  complex128 = 14,
  float8_e4m3fn = 15,
  float8_e5m2 = 16,
  float8_e8m0 = 17,
};

// "float32"; "dtype 99" is "unknown".
MOBULA_API std::string_view dtype_name(DType dtype);
// Bytes of one element; 0 for a number that names no type.
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
      "mobula: no dtype is this type; specialise mobula::dtype_of for a type of 16-bit or "
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

// The elements' type of a Tensor that is looked at as T. For other types than those of the language:
//   template <> inline constexpr mobula::DType mobula::dtype_of<__half> = mobula::DType::float16;
template <class T>
inline constexpr DType dtype_of = detail::dtype_for<T>();

}  // namespace mobula
