// The types of a call as data, for consoles that convert between JSON and values without the C++
// types.
// Thread: any; constants of the program.
// Not: part of a call; nothing here runs while a call is made.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/call.h>
#include <mobula/serialize.h>

namespace mobula::detail {

enum class NumberKind : std::uint8_t { none, signed_integer, unsigned_integer, floating };

struct TypeDescription {
  std::string_view name = {};  // as the compiler spells it
  std::uint64_t fingerprint = 0;
  Shape shape = Shape::none;
  NumberKind number = NumberKind::none;
  bool is_plain = false;  // serialized as its bytes in memory
  bool is_text = false;   // std::string
  bool is_map = false;    // association of keys and values
  std::size_t size_bytes = 0;
  std::size_t alignment = 1;
  std::size_t smallest_bytes = 1;  // minimum size of a value
  std::size_t count = 0;           // elements of an array
  double tick_s = 0;               // seconds per tick of a duration
  // Appends the element types, members, or alternatives in serialization order.
  void (*add_parts)(std::vector<const TypeDescription*>& parts) = nullptr;
  bool is_msgpack = false;  // its Serializer writes msgpack
};

template <class T>
const TypeDescription& describe();

template <class... Part>
void add_descriptions(std::vector<const TypeDescription*>& parts) {
  (parts.push_back(&describe<Part>()), ...);
}

template <class T, Shape = shape_of<T>()>
struct DescribedParts : TypeList<> {};

template <class T>
struct DescribedParts<T, Shape::enumeration> : TypeList<std::underlying_type_t<T>> {};
template <class T>
struct ElementPart : TypeList<std::remove_cv_t<typename T::value_type>> {};
template <class T>
struct DescribedParts<T, Shape::complex_number> : ElementPart<T> {};
template <class T>
struct DescribedParts<T, Shape::optional> : ElementPart<T> {};
template <class T>
struct DescribedParts<T, Shape::array> : ElementPart<T> {};
template <class T>
struct DescribedParts<T, Shape::block> : ElementPart<T> {};
template <class T>
struct DescribedParts<T, Shape::sequence> : ElementPart<T> {};
template <class T>
struct DescribedParts<T, Shape::association>
    : TypeList<typename Element<typename T::value_type>::Type> {};
template <class T>
struct DescribedParts<T, Shape::unique_pointer>
    : TypeList<std::remove_cv_t<typename T::element_type>> {};
template <class T>
struct DescribedParts<T, Shape::duration> : TypeList<typename T::rep> {};
template <class T>
struct DescribedParts<T, Shape::time_point> : TypeList<typename T::duration> {};
template <template <class...> class Template, class... Part>
struct DescribedParts<Template<Part...>, Shape::variant> : TypeList<Part...> {};
template <template <class...> class Template, class... Part>
struct DescribedParts<Template<Part...>, Shape::tuple> : TypeList<std::remove_cv_t<Part>...> {};

template <class... Part>
constexpr auto adder_of(const TypeList<Part...>*) {
  return &add_descriptions<Part...>;
}
template <class... Part>
constexpr auto adder_of(const MemberList<Part...>*) {
  return &add_descriptions<Part...>;
}

template <class T>
constexpr NumberKind number_kind_of() {
  if constexpr (!std::is_arithmetic_v<T> || std::is_same_v<T, bool>)
    return NumberKind::none;
  else if constexpr (std::is_floating_point_v<T>)
    return NumberKind::floating;
  else
    return std::is_signed_v<T> ? NumberKind::signed_integer : NumberKind::unsigned_integer;
}

template <class T>
constexpr TypeDescription description_of() {
  TypeDescription type;
  type.name = type_name<T>;
  type.fingerprint = fingerprint<T>();
  type.shape = shape_of<T>();
  type.number = number_kind_of<T>();
  type.is_plain = is_plain<T>();
  type.is_text = std::is_same_v<T, std::string>;
  type.is_map = requires { typename T::mapped_type; };
  type.is_msgpack = requires { Serializer<T>::is_msgpack; };
  type.size_bytes = sizeof(T);
  type.alignment = alignof(T);
  type.smallest_bytes = smallest<T>;
  if constexpr (is_std_array<T>) type.count = std::tuple_size_v<T>;
  if constexpr (shape_of<T>() == Shape::duration) {
    type.tick_s = static_cast<double>(T::period::num) / static_cast<double>(T::period::den);
  }
  if constexpr (shape_of<T>() == Shape::members || shape_of<T>() == Shape::plain_struct) {
    type.add_parts = adder_of(static_cast<const members_of<T>*>(nullptr));
  } else {
    type.add_parts = adder_of(static_cast<const DescribedParts<T>*>(nullptr));
  }
  return type;
}

template <class T>
const TypeDescription& describe() {
  static constexpr TypeDescription type = description_of<T>();
  return type;
}

// The parameter types and the result type of an entry.
struct CallDescription {
  void (*add_parameters)(std::vector<const TypeDescription*>& parameters) = nullptr;
  // null for constructors, split results, and streams
  const TypeDescription& (*result)() = nullptr;
  const TypeDescription& (*items)() = nullptr;  // streaming calls: the type of each item
  bool deferred = false;  // the call may be complete later than its function returns
};

template <class... P>
constexpr auto parameters_adder(TypeList<P...>) {
  return &add_descriptions<StoredAs<P>...>;
}

template <class Result, bool split, class Parameters>
inline constexpr CallDescription call_description{
    parameters_adder(Parameters{}),
    split || is_generator<Result> ? nullptr : &describe<typename ResultRefs<Result>::Stored>,
    is_generator<Result> ? &describe<typename ResultRefs<Result>::Stored> : nullptr,
    is_deferred<std::remove_cvref_t<Result>>};

template <class Parameters>
inline constexpr CallDescription constructor_description{parameters_adder(Parameters{}), nullptr,
                                                         nullptr};

}  // namespace mobula::detail
