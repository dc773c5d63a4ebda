// The way in which a type is serialized, decided at compile time in one order: a user's Serializer
// first, members of an aggregate last.
// Thread: any; no state.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/detail/members.h>
#include <mobula/detail/wire.h>

namespace mobula {

// Primary template of users' serializers. A specialization has `static void write(Writer&, const
// T&)` and `static T read(Reader&)`.
template <class T>
struct Serializer;

namespace detail {

// Codecs of the library's own types (refs, handles, views), specialized in their headers.
template <class T>
struct OwnCodec;

enum class Shape {
  none,
  custom,
  own,
  boolean,
  number,
  enumeration,
  complex_number,
  optional,
  variant,
  unique_pointer,
  tuple,
  array,
  duration,
  time_point,
  block,  // string or vector of elements without padding, as in memory
  sequence,
  association,
  plain_struct,  // aggregate without padding, as in memory
  members,
};

template <class T>
concept Custom = requires(Writer& out, Reader& in, const T& value) {
  Serializer<T>::write(out, value);
  { Serializer<T>::read(in) } -> std::convertible_to<T>;
};

template <class T>
concept Own = requires {
  OwnCodec<T>::fingerprint(std::uint64_t{0});
};

template <class T, template <class...> class Template>
inline constexpr bool is_a = false;
template <template <class...> class Template, class... Args>
inline constexpr bool is_a<Template<Args...>, Template> = true;

template <class T>
inline constexpr bool is_std_array = false;
template <class E, std::size_t size>
inline constexpr bool is_std_array<std::array<E, size>> = true;

template <class T>
inline constexpr bool is_unique_pointer = false;
template <class E>
inline constexpr bool is_unique_pointer<std::unique_ptr<E>> = !std::is_array_v<E>;

template <class T>
concept IsDuration = requires {
  typename T::rep;
  typename T::period;
  T::zero().count();
};

template <class T>
concept IsTimePoint = requires(const T& t) {
  typename T::clock;
  { t.time_since_epoch() } -> std::convertible_to<typename T::duration>;
};

template <class T>
concept Container = requires(const T& held) {
  typename T::value_type;
  held.begin() != held.end();
  { held.size() } -> std::convertible_to<std::size_t>;
}
&&std::default_initializable<T>;

template <class T>
concept Association = Container<T> && requires(T& held, typename T::value_type&& one) {
  typename T::key_type;
  held.emplace_hint(held.end(), std::move(one));
};

template <class T>
concept Sequence = Container<T> && requires(T& held, typename T::value_type&& one) {
  held.push_back(std::move(one));
};

template <class T>
inline constexpr bool is_contiguous_container = false;
template <class E, class Allocator>
inline constexpr bool is_contiguous_container<std::vector<E, Allocator>> = !std::is_same_v<E, bool>;
template <class E, class Traits, class Allocator>
inline constexpr bool is_contiguous_container<std::basic_string<E, Traits, Allocator>> = true;

template <class T>
constexpr bool is_plain();

template <class T, class... Members>
constexpr bool is_plain_struct(MemberList<Members...>) {
  if constexpr (sizeof...(Members) == 0) {
    return false;
  } else {
    return (is_plain<Members>() && ...) && (sizeof(Members) + ...) == sizeof(T);
  }
}

// Whether every pattern of sizeof(T) bytes is a value without unused bits: no pointer, no padding,
// no bool.
template <class T>
constexpr bool is_plain() {
  if constexpr (Custom<T> || std::is_same_v<T, bool> || std::is_same_v<T, long double>) {
    return false;
  } else if constexpr (std::is_enum_v<T>) {
    return !std::is_same_v<std::underlying_type_t<T>, bool>;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return true;
  } else if constexpr (is_a<T, std::complex>) {
    return is_plain<typename T::value_type>();
  } else if constexpr (is_std_array<T>) {
    return std::tuple_size_v<T> != 0 && is_plain<typename T::value_type>();
  } else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> &&
                       std::is_trivially_copyable_v<T>) {
    if constexpr (member_count<T> == no_members)
      return false;
    else
      return is_plain_struct<T>(members_of<T>{});
  } else {
    return false;
  }
}

template <class T>
constexpr Shape shape_of_class() {
  if constexpr (is_a<T, std::complex>)
    return Shape::complex_number;
  else if constexpr (is_a<T, std::optional>)
    return Shape::optional;
  else if constexpr (is_a<T, std::variant>)
    return Shape::variant;
  else if constexpr (is_a<T, std::tuple> || is_a<T, std::pair>)
    return Shape::tuple;
  else if constexpr (is_std_array<T>)
    return Shape::array;
  else if constexpr (is_unique_pointer<T>)
    return Shape::unique_pointer;
  else if constexpr (IsTimePoint<T>)
    return Shape::time_point;
  else if constexpr (IsDuration<T>)
    return Shape::duration;
  else if constexpr (Association<T>)
    return Shape::association;
  else if constexpr (is_contiguous_container<T>) {
    return is_plain<typename T::value_type>() ? Shape::block : Shape::sequence;
  } else if constexpr (Sequence<T>)
    return Shape::sequence;
  else if constexpr (member_count<T> == no_members)
    return Shape::none;
  else
    return is_plain<T>() ? Shape::plain_struct : Shape::members;
}

template <class T>
constexpr Shape shape_of() {
  if constexpr (Custom<T>)
    return Shape::custom;
  else if constexpr (Own<T>)
    return Shape::own;
  else if constexpr (std::is_same_v<T, bool>)
    return Shape::boolean;
  else if constexpr (std::is_arithmetic_v<T>)
    return Shape::number;
  else if constexpr (std::is_enum_v<T>)
    return Shape::enumeration;
  else if constexpr (std::is_class_v<T>)
    return shape_of_class<T>();
  else
    return Shape::none;
}

}  // namespace detail

}  // namespace mobula
