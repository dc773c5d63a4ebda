// Serialises types with MSGPACK_DEFINE (also _MAP and _ARRAY) through msgpack-c. Needs msgpack-cxx;
// the only header here that needs more than the standard library, so <mobula/mobula.h> leaves it
// out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include <msgpack.hpp>

#include <mobula/serialize.h>

namespace mobula {

namespace detail {

template <class T>
concept MsgpackDefined = requires(const T& value, T& into, msgpack::packer<msgpack::sbuffer>& out,
                                  const msgpack::object& in) {
  value.msgpack_pack(out);
  into.msgpack_unpack(in);
}
&&std::default_initializable<T>;

}  // namespace detail

template <detail::MsgpackDefined T>
struct Serializer<T> {
  static constexpr bool is_msgpack = true;  // for consoles: JSON in other words

  static void write(Writer& out, const T& value) {
    msgpack::sbuffer buffer;
    msgpack::pack(buffer, value);
    detail::write_block(out, buffer.data(), buffer.size());
  }

  // Throws SerializationError for bytes that are no such value.
  static T read(Reader& in) {
    const auto bytes = detail::read_block<char>(in);
    const std::size_t size = bytes.size();
    // No part can be larger than the whole; nesting is limited as everywhere.
    const msgpack::unpack_limit limit(size, size, size, size, size, detail::max_depth);
    try {
      const auto unpacked = msgpack::unpack(reinterpret_cast<const char*>(bytes.data()), size,
                                            nullptr, nullptr, limit);
      return unpacked->template as<T>();
    } catch (const std::exception&) {
      detail::throw_corrupt("its msgpack part is not of this type");
    }
  }
};

}  // namespace mobula
