// Serializes types with MSGPACK_DEFINE, MSGPACK_DEFINE_MAP, or MSGPACK_DEFINE_ARRAY. It needs
// msgpack-cxx, so mobula.h does not include it; all other headers need the standard library alone.
// Thread: any.
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

// Serializer of types with MSGPACK_DEFINE.
template <detail::MsgpackDefined T>
struct Serializer<T> {
  static constexpr bool is_msgpack = true;  // consoles convert such values to JSON

  // Writes the value as one msgpack block.
  static void write(Writer& out, const T& value) {
    msgpack::sbuffer buffer;
    msgpack::pack(buffer, value);
    detail::write_block(out, buffer.data(), buffer.size());
  }

  // Reads a value. `SerializationError` for bytes that are not a value of this type.
  static T read(Reader& in) {
    const auto bytes = detail::read_block<char>(in);
    const std::size_t size = bytes.size();
    // Limits: no element can be larger than the block, and nesting is limited as in other codecs.
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
