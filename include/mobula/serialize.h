// Serialization of values. Arithmetic types, strings, enums, optionals, variants, tuples,
// containers, durations, and aggregates of up to 64 members need no code; other types specialize
// `Serializer`.
// Thread: any.
// Errors: a type that cannot be serialized does not compile. Raw pointers, C arrays, base classes,
// string_view, and span are rejected because the result would not own its memory.
#pragma once

#include <mobula/detail/codec.h>
#include <mobula/detail/codec_std.h>
#include <mobula/detail/wire.h>

namespace mobula {

// Whether values of type T can be serialized. A type of any other kind specializes `Serializer`:
//
//   template <>
//   struct mobula::Serializer<Money> {
//     static void write(Writer& out, const Money& money) { out.write(money.cents()); }
//     static Money read(Reader& in) { return Money(in.read<std::int64_t>()); }
//   };
//
// `write` is called twice, first to count bytes, and must write the same both times. The type needs
// no default constructor.
template <class T>
inline constexpr bool is_serializable = detail::supported<T>();

namespace detail {

template <class Type, class Where>
constexpr void refuse_value(SerializeFault<Type, Where>) {
  static_assert(
      can_be_serialized<Type, Where>,
      "mobula: this type cannot be serialized; can_be_serialized<TYPE, MEMBER> names the part: "
      "a pointer, a reference, a C array, or a class with bases, private members or more than "
      "64 members; specialize mobula::Serializer for it");
}

template <class Type, class Where>
constexpr void refuse_parameter(SerializeFault<Type, Where>) {
  static_assert(
      can_be_serialized<Type, Where>,
      "mobula: a parameter's type cannot be serialized; can_be_serialized<TYPE, MEMBER> names "
      "the part; see <mobula/serialize.h>");
}

template <class Type, class Where>
constexpr void refuse_result(SerializeFault<Type, Where>) {
  static_assert(
      can_be_serialized<Type, Where>,
      "mobula: the result's type cannot be serialized; can_be_serialized<TYPE, MEMBER> names "
      "the part; see <mobula/serialize.h>");
}

template <class T>
constexpr void require_serializable() {
  if constexpr (!is_serializable<T>) refuse_value(fault_of<T, NoMember>());
}

// The leading bytes of a serialized T. A mismatch shows that bytes are read as another type.
template <class T>
constexpr std::uint64_t fingerprint() {
  if constexpr (is_serializable<T>)
    return fingerprint_of<T>(mix_start);
  else
    return 0;
}

}  // namespace detail

// Writes a value of any serializable type.
template <class T>
void Writer::write(const T& value) {
  detail::require_serializable<T>();
  if constexpr (is_serializable<T>) detail::Codec<T>::write(*this, value);
}

// Reads a value of any serializable type. `SerializationError` for bytes that are not a T.
template <class T>
T Reader::read() {
  detail::require_serializable<T>();
  if constexpr (is_serializable<T>) return detail::Codec<T>::read(*this);
}

}  // namespace mobula
