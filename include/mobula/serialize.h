// How values become bytes. Numbers, strings, enums, optionals, variants, tuples, containers,
// durations and aggregates of up to 64 members need nothing; any other type needs
//
//   template <>
//   struct mobula::Serializer<Money> {
//     static void write(Writer& out, const Money& money) { out.write(money.cents()); }
//     static Money read(Reader& in) { return Money(in.read<std::int64_t>()); }
//   };
//
// `write` is called twice, first to count, and must do the same both times. Raw pointers, C arrays,
// bases, string_view and span are refused at compile time: nothing would own what they point at.
#pragma once

#include <mobula/detail/codec.h>
#include <mobula/detail/codec_std.h>
#include <mobula/detail/wire.h>

namespace mobula {

template <class T>
inline constexpr bool is_serializable = detail::supported<T>();

namespace detail {

template <class Type, class Where>
constexpr void refuse_value(SerializeFault<Type, Where>) {
  static_assert(can_be_serialized<Type, Where>,
                "mobula: this type cannot be serialized; can_be_serialized<TYPE, MEMBER> names the part: "
                "a pointer, a reference, a C array, or a class with bases, private members or more than "
                "64 members; specialize mobula::Serializer for it");
}

template <class Type, class Where>
constexpr void refuse_parameter(SerializeFault<Type, Where>) {
  static_assert(can_be_serialized<Type, Where>,
                "mobula: a parameter's type cannot be serialized; can_be_serialized<TYPE, MEMBER> names "
                "the part; see <mobula/serialize.h>");
}

template <class Type, class Where>
constexpr void refuse_result(SerializeFault<Type, Where>) {
  static_assert(can_be_serialized<Type, Where>,
                "mobula: the result's type cannot be serialized; can_be_serialized<TYPE, MEMBER> names "
                "the part; see <mobula/serialize.h>");
}

template <class T>
constexpr void require_serializable() {
  if constexpr (!is_serializable<T>) refuse_value(fault_of<T, NoMember>());
}

// What the bytes of a T begin with, so that reading them as another type is an error.
template <class T>
constexpr std::uint64_t fingerprint() {
  if constexpr (is_serializable<T>)
    return fingerprint_of<T>(mix_start);
  else
    return 0;
}

}  // namespace detail

template <class T>
void Writer::write(const T& value) {
  detail::require_serializable<T>();
  if constexpr (is_serializable<T>) detail::Codec<T>::write(*this, value);
}

template <class T>
T Reader::read() {
  detail::require_serializable<T>();
  if constexpr (is_serializable<T>) return detail::Codec<T>::read(*this);
}

}  // namespace mobula
