#include "protocol/codec/codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mobula::internal {
namespace {

constexpr int max_skip_depth = 64;

std::uint64_t big_endian(std::uint64_t value) {
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

void store(std::byte* to, std::uint64_t value) {
  value = big_endian(value);
  std::memcpy(to, &value, sizeof value);
}

std::uint64_t load(const std::byte* from) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return big_endian(value);
}

}  // namespace

// ---- Writer ------------------------------------------------------------------------------------

// Writes the type byte and then the `width` low bytes of the value, big-endian.
void Writer::tagged(unsigned tag, std::uint64_t value, int width) {
  std::byte* const to = extend(static_cast<std::size_t>(width) + 1);
  to[0] = static_cast<std::byte>(tag);
  for (int i = 0; i < width; ++i)
    to[1 + i] = static_cast<std::byte>(value >> (8 * (width - 1 - i)));
}

void Writer::raw(const void* data, std::size_t size) {
  if (size == 0) return;
  if (size <= bytes_.size() - written_) return void(std::memcpy(extend(size), data, size));
  // Long data is inserted directly, so no memory is cleared first.
  const auto* const from = static_cast<const std::byte*>(data);
  bytes_.resize(written_);
  bytes_.insert(bytes_.end(), from, from + size);
  written_ = bytes_.size();
}

void Writer::long_integer(std::uint64_t value) {
  if (value <= 0xff) {
    tagged(0xcc, value, 1);
  } else if (value <= 0xffff) {
    tagged(0xcd, value, 2);
  } else if (value <= 0xffffffff) {
    tagged(0xce, value, 4);
  } else {
    tagged(0xcf, value, 8);
  }
}

void Writer::integer(std::int64_t value) {
  if (value >= 0) return unsigned_integer(static_cast<std::uint64_t>(value));
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= -32) {
    byte(static_cast<unsigned>(bits & 0xff));
  } else if (value >= INT8_MIN) {
    tagged(0xd0, bits, 1);
  } else if (value >= INT16_MIN) {
    tagged(0xd1, bits, 2);
  } else if (value >= INT32_MIN) {
    tagged(0xd2, bits, 4);
  } else {
    tagged(0xd3, bits, 8);
  }
}

void Writer::text(std::string_view value) {
  if (value.size() < 32) {
    byte(0xa0u | static_cast<unsigned>(value.size()));
  } else if (value.size() <= 0xff) {
    tagged(0xd9, value.size(), 1);
  } else if (value.size() <= 0xffff) {
    tagged(0xda, value.size(), 2);
  } else {
    tagged(0xdb, value.size(), 4);
  }
  raw(value.data(), value.size());
}

void Writer::binary(std::span<const std::byte> value) {
  if (value.size() <= 0xff) {
    tagged(0xc4, value.size(), 1);
  } else if (value.size() <= 0xffff) {
    tagged(0xc5, value.size(), 2);
  } else {
    tagged(0xc6, value.size(), 4);
  }
  raw(value.data(), value.size());
}

void Writer::id(std::uint64_t high, std::uint64_t low) {
  std::byte* const to = extend(2 + 2 * sizeof(std::uint64_t));
  to[0] = std::byte{0xc4};
  to[1] = std::byte{16};
  store(to + 2, high);
  store(to + 2 + sizeof high, low);
}

void Writer::long_array(std::size_t count) {
  if (count <= 0xffff) {
    tagged(0xdc, count, 2);
  } else {
    tagged(0xdd, count, 4);
  }
}

void Writer::map(std::size_t count) {
  if (count < 16) {
    byte(0x80u | static_cast<unsigned>(count));
  } else if (count <= 0xffff) {
    tagged(0xde, count, 2);
  } else {
    tagged(0xdf, count, 4);
  }
}

// ---- Reader ------------------------------------------------------------------------------------

Reader::Reader(std::span<const std::byte> bytes, DecodeLimits limits)
    : bytes_(bytes), elements_left_(limits.max_elements), memory_left_(limits.max_memory) {}

void Reader::fail(std::string_view why) {
  if (fault_.empty()) fault_ = std::string(why) + " at byte " + std::to_string(at_);
  at_ = bytes_.size();
}

unsigned Reader::next_byte() {
  if (at_ >= bytes_.size()) {
    fail("ends too early");
    return nothing;
  }
  return static_cast<unsigned>(bytes_[at_++]);
}

std::uint64_t Reader::big_endian(int width) {
  std::uint64_t value = 0;
  for (const std::byte each : raw(static_cast<std::size_t>(width)))
    value = (value << 8) | static_cast<std::uint64_t>(each);
  return value;
}

std::span<const std::byte> Reader::raw(std::size_t size) {
  if (failed()) return {};
  if (size > bytes_.size() - at_) {
    fail("claims more bytes than there are");
    return {};
  }
  const auto found = bytes_.subspan(at_, size);
  at_ += size;
  return found;
}

// A container of n elements needs at least n more bytes, so a false count fails immediately.
std::size_t Reader::count(std::size_t elements, std::size_t per_element) {
  if (failed()) return 0;
  if (elements > (bytes_.size() - at_) / per_element || elements > elements_left_) {
    fail("claims more elements than it can hold");
    return 0;
  }
  elements_left_ -= elements;
  return elements;
}

bool Reader::claim(std::size_t elements, std::size_t bytes_each) {
  if (failed()) return false;
  if (elements > memory_left_ / bytes_each) {
    fail("claims more memory than a message may take");
    return false;
  }
  memory_left_ -= elements * bytes_each;
  return true;
}

bool Reader::take(std::span<const std::byte> whole_value) {
  if (failed() || whole_value.empty() || whole_value.size() > bytes_.size() - at_) return false;
  if (std::memcmp(bytes_.data() + at_, whole_value.data(), whole_value.size()) != 0) return false;
  at_ += whole_value.size();
  return true;
}

bool Reader::no_boolean() {
  (void)next_byte();
  fail("expected a boolean");
  return false;
}

std::uint64_t Reader::long_unsigned() {
  const unsigned tag = next_byte();
  if (failed()) return 0;
  if (tag >= 0xcc && tag <= 0xcf) return big_endian(1 << (tag - 0xcc));
  fail("expected a number that is not negative");
  return 0;
}

std::int64_t Reader::long_integer() {
  const unsigned tag = next_byte();
  if (failed()) return 0;
  if (tag >= 0xe0) return static_cast<std::int8_t>(tag);
  switch (tag) {
    case 0xcc: return static_cast<std::int64_t>(big_endian(1));
    case 0xcd: return static_cast<std::int64_t>(big_endian(2));
    case 0xce: return static_cast<std::int64_t>(big_endian(4));
    case 0xcf: break;
    case 0xd0: return static_cast<std::int8_t>(big_endian(1));
    case 0xd1: return static_cast<std::int16_t>(big_endian(2));
    case 0xd2: return static_cast<std::int32_t>(big_endian(4));
    case 0xd3: return static_cast<std::int64_t>(big_endian(8));
    default: fail("expected an integer"); return 0;
  }
  const std::uint64_t wide = big_endian(8);
  if (wide > static_cast<std::uint64_t>(INT64_MAX)) fail("integer out of range");
  return failed() ? 0 : static_cast<std::int64_t>(wide);
}

std::string Reader::text() {
  const auto found = text_bytes();
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

std::span<const std::byte> Reader::text_bytes() {
  const unsigned tag = next_byte();
  if (failed()) return {};
  std::size_t size = 0;
  if ((tag & 0xe0) == 0xa0) {
    size = tag & 0x1f;
  } else if (tag == 0xd9 || tag == 0xda || tag == 0xdb) {
    size = big_endian(1 << (tag - 0xd9));
  } else {
    fail("expected text");
    return {};
  }
  return raw(size);
}

std::span<const std::byte> Reader::binary() {
  const unsigned tag = next_byte();
  if (failed()) return {};
  if (tag != 0xc4 && tag != 0xc5 && tag != 0xc6) {
    fail("expected bytes");
    return {};
  }
  return raw(big_endian(1 << (tag - 0xc4)));
}

Hash128 Reader::id() {
  const auto bytes = binary();
  if (bytes.size() == 16) return {load(bytes.data()), load(bytes.data() + sizeof(std::uint64_t))};
  fail("an id has 16 bytes");
  return {};
}

std::size_t Reader::array() {
  const unsigned tag = next_byte();
  if (failed()) return 0;
  if ((tag & 0xf0) == 0x90) return count(tag & 0x0f, 1);
  if (tag == 0xdc) return count(big_endian(2), 1);
  if (tag == 0xdd) return count(big_endian(4), 1);
  fail("expected an array");
  return 0;
}

std::size_t Reader::map() {
  const unsigned tag = next_byte();
  if (failed()) return 0;
  if ((tag & 0xf0) == 0x80) return count(tag & 0x0f, 2);
  if (tag == 0xde) return count(big_endian(2), 2);
  if (tag == 0xdf) return count(big_endian(4), 2);
  fail("expected a map");
  return 0;
}

std::span<const std::byte> Reader::skip() {
  const std::size_t first = at_;
  skip_nested(0);
  return failed() ? std::span<const std::byte>() : bytes_.subspan(first, at_ - first);
}

void Reader::skip_nested(int depth) {
  if (depth > max_skip_depth) return fail("is nested too deeply");
  if (failed() || at_ >= bytes_.size()) return fail("ends too early");
  const unsigned tag = static_cast<unsigned>(bytes_[at_]);
  const bool is_array = (tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd;
  const bool is_map = (tag & 0xf0) == 0x80 || tag == 0xde || tag == 0xdf;
  if (is_array || is_map) {
    const std::size_t values = is_array ? array() : 2 * map();
    for (std::size_t i = 0; i < values && !failed(); ++i) skip_nested(depth + 1);
    return;
  }
  if ((tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) return void(text_bytes());
  if (tag >= 0xc4 && tag <= 0xc6) return void(binary());
  ++at_;
  if (tag < 0x80 || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3) return;
  switch (tag) {
    case 0xca: raw(4); return;  // float
    case 0xcb: raw(8); return;  // double
    case 0xcc:
    case 0xd0: raw(1); return;
    case 0xcd:
    case 0xd1: raw(2); return;
    case 0xce:
    case 0xd2: raw(4); return;
    case 0xcf:
    case 0xd3: raw(8); return;
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8: raw(1 + (std::size_t{1} << (tag - 0xd4))); return;
    case 0xc7:
    case 0xc8:
    case 0xc9: raw(1 + big_endian(1 << (tag - 0xc7))); return;
    default: fail("holds a byte that msgpack does not use");
  }
}

// ---- values ------------------------------------------------------------------------------------

void write(Writer& out, Hash128 value) { out.id(value.high, value.low); }

void read(Reader& in, Hash128& value) { value = in.id(); }

void write(Writer& out, const ResourceSet& value) {
  out.map(value.amounts().size());
  for (const auto& [name, amount] : value.amounts()) {
    out.text(name);
    write(out, amount);
  }
}

void read(Reader& in, ResourceSet& value) {
  value = {};
  const std::size_t count = in.map();
  for (std::size_t i = 0; i < count && !in.failed(); ++i) {
    const std::string name = in.text();
    Quantity amount;
    read(in, amount);
    if (!value.empty() && name <= value.amounts().back().first)
      return in.fail("resources are not in the order of their names");
    value.set(name, amount);
  }
}

void write(Writer& out, const Failure& value) {
  out.array(2);
  write(out, value.code);
  out.text(value.text);
}

void read(Reader& in, Failure& value) {
  if (in.array() != 2) return in.fail("a failure holds code and text");
  read(in, value.code);
  value.text = in.text();
}

void read(Reader& in, Bytes& value) {
  const auto bytes = in.binary();
  value.assign(bytes.begin(), bytes.end());
}

void read(Reader& in, Payload& value) {
  const auto bytes = in.binary();
  value = Payload(bytes);
}

}  // namespace mobula::internal
