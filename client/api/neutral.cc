// Neutral values as msgpack, over the streams of protocol/codec.
#include <mobula/neutral.h>

#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <span>

#include <mobula/errors.h>

#include "client/api/untyped_payload.h"
#include "protocol/codec/msgpack_stream.h"

namespace mobula::dynamic {
namespace {

// As readers of other languages limit it.
constexpr int deepest = 256;

[[noreturn]] void fail(const std::string& why) {
  throw SerializationError("a neutral value: " + why);
}

// First bytes of floating-point values.
constexpr unsigned float32 = 0xca, float64 = 0xcb;

// First byte of an extension of four bytes.
constexpr unsigned fixext4 = 0xd6;

class NeutralWriter {
 public:
  // The refs of the written values.
  std::vector<AnyRef> take_refs() { return std::move(refs_); }
  void write(const NeutralValue& value, int depth = 0) {
    if (depth > deepest) fail("it nests deeper than 256 levels");
    std::visit([&](const auto& content) { put(content, depth); }, value.content());
  }
  std::vector<std::byte> take() { return out_.take(); }

 private:
  static constexpr std::size_t most = 0xffff'ffff;  // bytes or elements of a part, in msgpack

  static void check_size(std::size_t size) {
    if (size > most) fail("it has a part with more than 2^32 bytes or elements");
  }

  void put(std::monostate, int) { out_.nil(); }
  void put(bool value, int) { out_.boolean(value); }
  void put(std::uint64_t value, int) { out_.unsigned_integer(value); }
  void put(std::int64_t value, int) { out_.integer(value); }
  void put(double value, int) {
    std::array<std::byte, 9> encoded{std::byte{float64}};
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (std::size_t i = 1; i < encoded.size(); ++i)
      encoded[i] = static_cast<std::byte>(bits >> (8 * (8 - i)));
    out_.encoded(encoded);
  }
  void put(const std::string& value, int) {
    check_size(value.size());
    out_.text(value);
  }
  void put(const Bytes& value, int) {
    check_size(value.size());
    out_.binary(value);
  }
  void put(const List& value, int depth) {
    check_size(value.size());
    out_.array(value.size());
    for (const auto& each : value) write(each, depth + 1);
  }
  void put(const Ref& value, int) {
    if (value.get().empty()) return out_.nil();
    std::array<std::byte, 2 + internal::client::neutral_ref_bytes> encoded{
        std::byte{fixext4}, std::byte{internal::client::neutral_ref_type}};
    for (std::size_t i = 2; i < encoded.size(); ++i)
      encoded[i] = static_cast<std::byte>(refs_.size() >> (8 * (encoded.size() - 1 - i)));
    out_.encoded(encoded);
    refs_.push_back(value.get());
  }
  void put(const Dictionary& value, int depth) {
    check_size(value.size());
    out_.map(value.size());
    for (const auto& [key, each] : value) {
      put(key, depth);
      write(each, depth + 1);
    }
  }

  internal::Writer out_;
  std::vector<AnyRef> refs_;
};

class NeutralReader {
 public:
  // Elements take memory that the bytes bound; the decoder's limits are for messages.
  NeutralReader(std::span<const std::byte> bytes, std::span<const AnyRef> refs)
      : bytes_(bytes),
        refs_(refs),
        in_(bytes, {.max_bytes = bytes.size(),
                    .max_elements = bytes.size(),
                    .max_memory = std::numeric_limits<std::size_t>::max()}) {}

  NeutralValue read(int depth = 0) {
    if (depth > deepest) fail("it nests deeper than 256 levels");
    NeutralValue value = next(depth);
    if (in_.failed()) fail(in_.fault());
    return value;
  }
  void require_end() const {
    if (!in_.at_end()) fail("bytes follow it");
  }

 private:
  // Reads the value by its first byte; see the msgpack specification.
  NeutralValue next(int depth) {
    if (in_.at_end()) fail("its bytes end too early");
    const auto mark = static_cast<unsigned>(bytes_[in_.position()]);
    const auto between = [mark](unsigned first, unsigned last) {
      return first <= mark && mark <= last;
    };
    if (in_.nil()) return {};
    if (between(0xc2, 0xc3)) return in_.boolean();
    if (between(0x00, 0x7f) || between(0xcc, 0xcf)) return in_.unsigned_integer();
    if (between(0xe0, 0xff) || between(0xd0, 0xd3)) return in_.integer();
    if (between(float32, float64)) return real(in_.skip());
    if (between(0xa0, 0xbf) || between(0xd9, 0xdb)) return in_.text();
    if (between(0xc4, 0xc6)) {
      const auto bytes = in_.binary();
      return Bytes(bytes.begin(), bytes.end());
    }
    if (between(0x90, 0x9f) || between(0xdc, 0xdd)) return list(in_.array(), depth);
    if (between(0x80, 0x8f) || between(0xde, 0xdf)) return dictionary(in_.map(), depth);
    if (mark == fixext4) return ref(in_.skip());
    fail("msgpack type " + std::to_string(mark) + " is not neutral");
  }
  static double real(std::span<const std::byte> encoded) {
    if (encoded.empty()) return 0;  // the reader has failed
    std::uint64_t bits = 0;
    for (const std::byte each : encoded.subspan(1))
      bits = bits << 8 | std::to_integer<unsigned>(each);
    return encoded.size() == 9 ? std::bit_cast<double>(bits)
                               : double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))};
  }
  NeutralValue ref(std::span<const std::byte> encoded) {
    using internal::client::neutral_ref_type;
    if (encoded.size() < 2 || encoded[1] != std::byte{neutral_ref_type})
      fail("it has an extension of msgpack that is no ref");
    std::size_t index = 0;
    for (const std::byte each : encoded.subspan(2))
      index = index << 8 | std::to_integer<std::size_t>(each);
    if (index >= refs_.size()) fail("it names a ref that it does not have");
    return refs_[index];
  }
  List list(std::size_t count, int depth) {
    List elements;
    for (std::size_t i = 0; i < count; ++i) elements.push_back(read(depth + 1));
    return elements;
  }
  Dictionary dictionary(std::size_t count, int depth) {
    Dictionary rows;
    for (std::size_t i = 0; i < count; ++i) {
      const NeutralValue key = read(depth + 1);
      const auto* name = std::get_if<std::string>(&key.content());
      if (name == nullptr) fail("a dictionary has a key that is not text");
      if (!rows.emplace(*name, read(depth + 1)).second) fail("a dictionary has a key twice");
    }
    return rows;
  }

  std::span<const std::byte> bytes_;
  std::span<const AnyRef> refs_;
  internal::Reader in_;
};

}  // namespace

bool Ref::operator==(const Ref& other) const {
  const auto id_of = [](const AnyRef& ref) {
    return ref.empty() ? detail::RawId{} : ref.anchor()->ref().id;
  };
  return id_of(ref_) == id_of(other.ref_);
}

Payload neutral_payload(const NeutralValue& value) {
  NeutralWriter out;
  out.write(value);
  // A caller may hold many arguments, and most are smaller than the writer's memory.
  std::vector<std::byte> written = out.take();
  written.shrink_to_fit();
  const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(written));
  return {neutral_format, {.body = *bytes, .refs = out.take_refs(), .owner = bytes}};
}

NeutralValue neutral_value(const StoredPayload& stored) {
  if (stored.format() == internal::client::typed_format) {
    throw SerializationError(
        "reading a value in format \"neutral/1\": it was written in format \"c++\"; pass its ref "
        "to "
        "a function of its program that returns it");
  }
  const auto parts = stored.parts(neutral_format);
  NeutralReader in(parts.body, parts.refs);
  NeutralValue value = in.read();
  in.require_end();
  return value;
}

}  // namespace mobula::dynamic
