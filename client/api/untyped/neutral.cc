// Neutral values as msgpack, over the streams of protocol/codec.
#include <mobula/neutral.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <span>

#include <mobula/errors.h>

#include "base/containers/block_pool.h"
#include "client/api/untyped/untyped_payload.h"
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

using internal::client::neutral_actor_type;
using internal::client::neutral_index_bytes;
using internal::client::neutral_ref_type;
using internal::client::neutral_tensor_type;

class NeutralWriter {
 public:
  // The parts of the written values.
  std::vector<AnyRef> take_refs() { return std::move(refs_); }
  std::vector<Tensor> take_tensors() { return std::move(tensors_); }
  std::vector<AnyActor> take_actors() { return std::move(actors_); }
  void write(const NeutralValue& value, int depth = 0) {
    if (depth > deepest) fail("it nests deeper than 256 levels");
    std::visit([&](const auto& content) { put(content, depth); }, value.content());
  }
  std::vector<std::byte> take() { return out_.take(); }

  // Reuses this memory.
  explicit NeutralWriter(std::vector<std::byte> memory) : out_(std::move(memory)) {}

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
    put_index(neutral_ref_type, refs_.size());
    refs_.push_back(value.get());
  }
  void put(const Handle& value, int) {
    if (value.get().empty()) return out_.nil();
    put_index(neutral_actor_type, actors_.size());
    actors_.push_back(value.get());
  }
  void put(const NeutralTensor& value, int) {
    put_index(neutral_tensor_type, tensors_.size());
    tensors_.push_back(value.get());
  }
  void put_index(unsigned type, std::size_t index) {
    std::array<std::byte, 2 + neutral_index_bytes> encoded{std::byte{fixext4},
                                                           static_cast<std::byte>(type)};
    for (std::size_t i = 2; i < encoded.size(); ++i)
      encoded[i] = static_cast<std::byte>(index >> (8 * (encoded.size() - 1 - i)));
    out_.encoded(encoded);
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
  std::vector<Tensor> tensors_;
  std::vector<AnyActor> actors_;
};

class NeutralReader {
 public:
  // Elements take memory that the bytes bound; the decoder's limits are for messages.
  explicit NeutralReader(const Payload::Parts& parts)
      : parts_(parts),
        in_(parts.body, {.max_bytes = parts.body.size(),
                         .max_elements = parts.body.size(),
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
    const auto mark = static_cast<unsigned>(parts_.body[in_.position()]);
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
    if (mark == fixext4) return part(in_.skip());
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
  // A ref, a tensor, or a handle.
  NeutralValue part(std::span<const std::byte> encoded) {
    if (encoded.size() != 2 + neutral_index_bytes) fail("its bytes end too early");
    std::size_t index = 0;
    for (const std::byte each : encoded.subspan(2))
      index = index << 8 | std::to_integer<std::size_t>(each);
    const auto type = std::to_integer<unsigned>(encoded[1]);
    if (type == neutral_ref_type && index < parts_.refs.size()) return parts_.refs[index];
    if (type == neutral_tensor_type && index < parts_.tensors.size()) return parts_.tensors[index];
    if (type == neutral_actor_type && index < parts_.actors.size()) return parts_.actors[index];
    if (type == neutral_ref_type) fail("it names a ref that it does not have");
    if (type == neutral_tensor_type) fail("it names a tensor that it does not have");
    if (type == neutral_actor_type) fail("it names a handle that it does not have");
    fail("it has an extension of msgpack that is neither a ref, nor a tensor, nor a handle");
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

  const Payload::Parts& parts_;
  internal::Reader in_;
};

}  // namespace

bool Ref::operator==(const Ref& other) const {
  const auto id_of = [](const AnyRef& ref) {
    return ref.empty() ? detail::RawId{} : ref.anchor()->ref().id;
  };
  return id_of(ref_) == id_of(other.ref_);
}

bool Handle::operator==(const Handle& other) const { return actor_.id() == other.actor_.id(); }

bool NeutralTensor::operator==(const NeutralTensor& other) const {
  if (tensor_.dtype() != other.tensor_.dtype() || tensor_.shape() != other.tensor_.shape())
    return false;
  const auto in_order = [](const Tensor& tensor) { return tensor.to(Device()).contiguous(); };
  const Tensor own = in_order(tensor_), others = in_order(other.tensor_);
  return std::ranges::equal(own.view<std::byte>(), others.view<std::byte>());
}

Payload neutral_payload(const NeutralValue& value) {
  constexpr std::size_t most_kept = 65'536;
  thread_local std::vector<std::byte> memory;
  NeutralWriter out(std::move(memory));
  out.write(value);
  // A caller may hold many arguments, and most are smaller than the writer's memory.
  std::vector<std::byte> written = out.take();
  const auto bytes =
      std::allocate_shared<std::byte[]>(internal::Recycled<std::byte>(), written.size());
  std::ranges::copy(written, bytes.get());
  const std::span<const std::byte> body(bytes.get(), written.size());
  memory.clear();
  if (written.capacity() <= most_kept) memory = std::move(written);
  return {neutral_format,
          {.body = body,
           .refs = out.take_refs(),
           .actors = out.take_actors(),
           .tensors = out.take_tensors(),
           .owner = bytes}};
}

NeutralValue neutral_value(const StoredPayload& stored) {
  if (stored.format() == internal::client::typed_format) {
    throw SerializationError(
        "reading a value in format \"neutral/1\": it was written in format \"c++\"; pass its ref "
        "to "
        "a function of its program that returns it");
  }
  const auto parts = stored.parts(neutral_format);
  NeutralReader in(parts);
  NeutralValue value = in.read();
  in.require_end();
  return value;
}

}  // namespace mobula::dynamic
