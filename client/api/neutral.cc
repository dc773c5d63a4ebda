// Neutral values as msgpack.
#include <mobula/neutral.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>

#include <mobula/errors.h>

namespace mobula::dynamic {
namespace {

// As readers of other languages limit it.
constexpr int deepest = 256;

[[noreturn]] void fail(const std::string& why) {
  throw SerializationError("a neutral value: " + why);
}

// First bytes of msgpack values. `sized` types have forms with sizes of 1, 2, and 4 bytes.
enum Mark : std::uint8_t {
  nil = 0xc0,
  no = 0xc2,
  yes = 0xc3,
  bytes8 = 0xc4,
  bytes16 = 0xc5,
  bytes32 = 0xc6,
  float32 = 0xca,
  float64 = 0xcb,
  uint8 = 0xcc,
  uint16 = 0xcd,
  uint32 = 0xce,
  uint64 = 0xcf,
  int8 = 0xd0,
  int16 = 0xd1,
  int32 = 0xd2,
  int64 = 0xd3,
  text8 = 0xd9,
  text16 = 0xda,
  text32 = 0xdb,
  list16 = 0xdc,
  list32 = 0xdd,
  dictionary16 = 0xde,
  dictionary32 = 0xdf,
};

class NeutralWriter {
 public:
  void write(const NeutralValue& value, int depth = 0) {
    if (depth > deepest) fail("it nests deeper than 256 levels");
    std::visit([&](const auto& content) { put(content, depth); }, value.content());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void mark(unsigned value) { bytes_.push_back(static_cast<std::byte>(value)); }
  // Big-endian, as msgpack demands.
  void number(std::uint64_t value, int size) {
    for (int i = size - 1; i >= 0; --i) mark(static_cast<unsigned>(value >> (8 * i) & 0xff));
  }
  void append(const void* from, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  // `small` is the number of counts that are part of the mark `fixed`. Without `with8` no form has
  // one byte for the count.
  void count(std::size_t value, std::size_t small, unsigned fixed, std::optional<Mark> with8,
             Mark with16, Mark with32) {
    if (value < small) return mark(fixed | static_cast<unsigned>(value));
    if (with8 && value <= 0xff) return mark(*with8), number(value, 1);
    if (value <= 0xffff) return mark(with16), number(value, 2);
    if (value > 0xffff'ffff) fail("it has a part with more than 2^32 bytes or elements");
    mark(with32);
    number(value, 4);
  }

  void put(std::monostate, int) { mark(nil); }
  void put(bool value, int) { mark(value ? yes : no); }
  void put(std::uint64_t value, int) { mark(uint64), number(value, 8); }
  void put(double value, int) { mark(float64), number(std::bit_cast<std::uint64_t>(value), 8); }
  void put(std::int64_t value, int) {
    const auto bits = static_cast<std::uint64_t>(value);
    const auto fits = [&](auto least) {
      using Type = decltype(least);
      return value >= std::numeric_limits<Type>::min() && value <= std::numeric_limits<Type>::max();
    };
    if (value >= -32 && value <= 127) return mark(bits & 0xff);
    if (fits(std::int8_t{})) return mark(int8), number(bits, 1);
    if (fits(std::int16_t{})) return mark(int16), number(bits, 2);
    if (fits(std::int32_t{})) return mark(int32), number(bits, 4);
    mark(int64);
    number(bits, 8);
  }
  void put(const std::string& value, int) {
    count(value.size(), 32, 0xa0, text8, text16, text32);
    append(value.data(), value.size());
  }
  void put(const Bytes& value, int) {
    count(value.size(), 0, 0, bytes8, bytes16, bytes32);
    append(value.data(), value.size());
  }
  void put(const List& value, int depth) {
    count(value.size(), 16, 0x90, std::nullopt, list16, list32);
    for (const auto& each : value) write(each, depth + 1);
  }
  void put(const Dictionary& value, int depth) {
    count(value.size(), 16, 0x80, std::nullopt, dictionary16, dictionary32);
    for (const auto& [key, each] : value) {
      put(key, depth);
      write(each, depth + 1);
    }
  }

  std::vector<std::byte> bytes_;
};

class NeutralReader {
 public:
  explicit NeutralReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  NeutralValue read(int depth = 0) {
    if (depth > deepest) fail("it nests deeper than 256 levels");
    const auto mark = static_cast<std::uint8_t>(number(1));
    if (mark <= 0x7f) return std::int64_t{mark};
    if (mark >= 0xe0) return std::int64_t{static_cast<std::int8_t>(mark)};
    if ((mark & 0xe0) == 0xa0) return text(mark & 0x1f);
    if ((mark & 0xf0) == 0x90) return list(mark & 0x0f, depth);
    if ((mark & 0xf0) == 0x80) return dictionary(mark & 0x0f, depth);
    switch (mark) {
      case nil: return {};
      case no: return false;
      case yes: return true;
      case float32: return double{std::bit_cast<float>(static_cast<std::uint32_t>(number(4)))};
      case float64: return std::bit_cast<double>(number(8));
      case uint8: return number(1);
      case uint16: return number(2);
      case uint32: return number(4);
      case uint64: return number(8);
      case int8: return static_cast<std::int8_t>(number(1));
      case int16: return static_cast<std::int16_t>(number(2));
      case int32: return static_cast<std::int32_t>(number(4));
      case int64: return static_cast<std::int64_t>(number(8));
      case bytes8: return binary(number(1));
      case bytes16: return binary(number(2));
      case bytes32: return binary(number(4));
      case text8: return text(number(1));
      case text16: return text(number(2));
      case text32: return text(number(4));
      case list16: return list(number(2), depth);
      case list32: return list(number(4), depth);
      case dictionary16: return dictionary(number(2), depth);
      case dictionary32: return dictionary(number(4), depth);
      default: fail("msgpack type " + std::to_string(mark) + " is not neutral");
    }
  }
  void require_end() const {
    if (!bytes_.empty()) fail("bytes follow it");
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size()) fail("its bytes end too early");
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (const std::byte each : take(size)) value = value << 8 | static_cast<std::uint64_t>(each);
    return value;
  }
  std::string text(std::size_t size) {
    const auto taken = take(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  Bytes binary(std::size_t size) {
    const auto taken = take(size);
    return {taken.begin(), taken.end()};
  }
  // Each element has at least one byte.
  void check_count(std::size_t count) const {
    if (count > bytes_.size()) fail("its bytes end too early");
  }
  List list(std::size_t count, int depth) {
    check_count(count);
    List elements;
    for (std::size_t i = 0; i < count; ++i) elements.push_back(read(depth + 1));
    return elements;
  }
  Dictionary dictionary(std::size_t count, int depth) {
    check_count(count);
    Dictionary rows;
    for (std::size_t i = 0; i < count; ++i) {
      const NeutralValue key = read(depth + 1);
      const auto* name = std::get_if<std::string>(&key.content());
      if (name == nullptr) fail("a dictionary has a key that is no text");
      if (!rows.emplace(*name, read(depth + 1)).second) fail("a dictionary has a key twice");
    }
    return rows;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace

Payload neutral_payload(const NeutralValue& value) {
  NeutralWriter out;
  out.write(value);
  const auto bytes = std::make_shared<const std::vector<std::byte>>(out.take());
  return {neutral_format, {.body = *bytes, .owner = bytes}};
}

NeutralValue neutral_value(const StoredPayload& stored) {
  const auto parts = stored.parts(neutral_format);
  NeutralReader in(parts.body);
  NeutralValue value = in.read();
  in.require_end();
  return value;
}

}  // namespace mobula::dynamic
