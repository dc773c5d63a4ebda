// Writes, reads, and fingerprints each shape of type: numbers, structs, and users' serializers. The
// templates of the standard library are in codec_std.h.
// Thread: any; no state.
// Units: every value takes at least one byte, so that a count of elements can be checked against
// the remaining bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <mobula/detail/serialize_fault.h>
#include <mobula/detail/shape.h>
#include <mobula/detail/type_name.h>
#include <mobula/detail/wire.h>

namespace mobula::detail {

template <class T, Shape = shape_of<T>()>
struct Codec;

// `Open` lists the structs around T, for types that contain themselves.
template <class T, class... Open>
constexpr bool supported() {
  if constexpr ((std::is_same_v<T, Open> || ...))
    return true;
  else if constexpr (shape_of<T>() == Shape::none)
    return false;
  else
    return Codec<T>::template supported<Open...>();
}

// The innermost unsupported part of an unsupported T, as a SerializeFault. `Where` is the member of
// type T.
template <class T, class Where, class... Open>
constexpr auto fault_of() {
  if constexpr (requires { Codec<T>::template fault<Where, Open...>(); }) {
    return Codec<T>::template fault<Where, Open...>();
  } else {
    return SerializeFault<T, Where>();
  }
}

template <class Where, class... Open>
struct FaultAmong {
  template <class First, class... Rest>
  static constexpr auto first() {
    if constexpr (supported<First, Open...>()) {
      return first<Rest...>();
    } else {
      return fault_of<First, Where, Open...>();
    }
  }
};

template <class T, class... Open>
constexpr std::uint64_t fingerprint_of(std::uint64_t state) {
  if constexpr ((std::is_same_v<T, Open> || ...))
    return mix_name(mix(state, "^"), type_name<T>);
  else
    return Codec<T>::template fingerprint<Open...>(state);
}

// Common part of all codecs: a tag, a number that distinguishes types of one shape, and element
// types.
template <char tag, std::uint64_t number, class... Part>
struct Parts {
  template <class... Open>
  static constexpr bool supported() {
    return (detail::supported<Part, Open...>() && ...);
  }
  template <class Where, class... Open>
  static constexpr auto fault() {
    return FaultAmong<Where, Open...>::template first<Part...>();
  }
  template <class... Open>
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    state = mix(mix(state, static_cast<unsigned char>(tag)), number);
    ((state = fingerprint_of<Part, Open...>(state)), ...);
    return mix(state, sizeof...(Part));
  }
};

// Smallest number of bytes that a T takes.
template <class T>
inline constexpr std::size_t smallest = is_plain<T>() ? sizeof(T) : 1;

template <class T>
void write_plain(Writer& out, const T& value) {
  out.write_bytes(&value, sizeof value);
}

template <class T>
T read_plain(Reader& in) {
  struct Bytes {
    std::byte of[sizeof(T)];
  } bytes;
  in.read_bytes(&bytes, sizeof bytes);
  return std::bit_cast<T>(bytes);
}

inline constexpr std::byte placeholder{0};

template <class T>
struct Codec<T, Shape::boolean> : Parts<'?', 0> {
  static void write(Writer& out, bool value) {
    write_plain(out, static_cast<std::uint8_t>(value ? 1 : 0));
  }
  static bool read(Reader& in) {
    const auto byte = read_plain<std::uint8_t>(in);
    if (byte > 1) throw_corrupt("a bool is neither 0 nor 1");
    return byte == 1;
  }
};

template <class T>
constexpr std::uint64_t number_kind() {
  return sizeof(T) * 4 + (std::is_floating_point_v<T> ? 2 : 0) + (std::is_signed_v<T> ? 1 : 0);
}

template <class T>
struct Codec<T, Shape::number> : Parts<'i', number_kind<T>()> {
  static void write(Writer& out, T value) {
    if constexpr (std::is_same_v<T, long double>) {
      // The bytes after the significant 10 are uninitialized in the stack slot.
      unsigned char bytes[sizeof(T)] = {};
      __builtin_memcpy(bytes, &value, sizeof(T) < 10 ? sizeof(T) : 10);
      out.write_bytes(bytes, sizeof bytes);
    } else {
      write_plain(out, value);
    }
  }
  static T read(Reader& in) {
    T value;
    in.read_bytes(&value, sizeof value);
    return value;
  }
};

template <class T>
struct Codec<T, Shape::enumeration>
    : Parts<'e', mix_name(mix_start, type_name<T>), std::underlying_type_t<T>> {
  using Number = std::underlying_type_t<T>;
  static void write(Writer& out, T value) { out.write(static_cast<Number>(value)); }
  static T read(Reader& in) { return static_cast<T>(in.read<Number>()); }
};

template <class T>
struct Codec<T, Shape::custom> : Parts<'x', mix_name(mix_start, type_name<T>)> {
  static void write(Writer& out, const T& value) {
    out.enter();
    const auto before = out.position();
    Serializer<T>::write(out, value);
    if (out.position() == before) write_plain(out, placeholder);
    out.leave();
  }
  static T read(Reader& in) {
    in.enter();
    const auto before = in.position();
    const auto finish = [&] {
      if (in.position() == before) in.take(1);
      in.leave();
    };
    if constexpr (std::is_move_constructible_v<T>) {
      T value = Serializer<T>::read(in);
      finish();
      return value;
    } else {
      static_assert(std::is_move_constructible_v<T>,
                    "mobula: a type with a Serializer must be movable to be read");
    }
  }
};

template <class T>
struct Codec<T, Shape::own> {
  template <class...>
  static constexpr bool supported() {
    return OwnCodec<T>::supported();
  }
  template <class...>
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return OwnCodec<T>::fingerprint(state);
  }
  static void write(Writer& out, const T& value) { OwnCodec<T>::write(out, value); }
  static T read(Reader& in) { return OwnCodec<T>::read(in); }
};

// Fingerprints of structs contain the name of the type and its members; T is open while they are
// computed.
template <class T, class List>
struct StructParts;

template <class T, class... Member>
struct StructParts<T, MemberList<Member...>> {
  using All = Parts<'S', mix_name(mix_start, type_name<T>), Member...>;
  template <class... Open>
  static constexpr bool supported() {
    return All::template supported<Open..., T>();
  }
  template <class, class... Open>
  static constexpr auto fault() {
    return fault_from<0, Open...>();
  }
  template <class... Open>
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return All::template fingerprint<Open..., T>(state);
  }
  static T read(Reader& in) { return T{in.read<Member>()...}; }

 private:
  template <std::size_t index, class... Open>
  static constexpr auto fault_from() {
    using At = std::tuple_element_t<index, std::tuple<Member...>>;
    if constexpr (detail::supported<At, Open..., T>()) {
      return fault_from<index + 1, Open...>();
    } else {
      return fault_of<At, MemberAt<T, index>, Open..., T>();
    }
  }
};

template <class T>
struct Codec<T, Shape::plain_struct> : StructParts<T, members_of<T>> {
  static void write(Writer& out, const T& value) { write_plain(out, value); }
  static T read(Reader& in) { return read_plain<T>(in); }
};

template <class T>
struct Codec<T, Shape::members> : StructParts<T, members_of<T>> {
  static void write(Writer& out, const T& value) {
    if constexpr (member_count<T> == 0) {
      write_plain(out, placeholder);
    } else {
      out.enter();
      visit_members(value, [&out](const auto&... member) { (out.write(member), ...); });
      out.leave();
    }
  }
  static T read(Reader& in) {
    if constexpr (member_count<T> == 0) {
      in.take(1);
      return T{};
    } else {
      in.enter();
      T value = StructParts<T, members_of<T>>::read(in);
      in.leave();
      return value;
    }
  }
};

}  // namespace mobula::detail
