// Writes and reads msgpack (https://github.com/msgpack/msgpack, spec of 2013). A struct is an array
// of its fields in list order, so a reader skips unknown fields and defaults missing ones.
// Thread: owner.
// Errors: any fault makes the whole message `corrupt`. Decoding never trusts a count, never
// recurses without bound, and never allocates beyond the limits. Padding is never encoded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/model/payload.h"
#include "base/model/resources.h"
#include "base/quantity.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

using Bytes = std::vector<std::byte>;

// Resources that the decoder may use for one message.
struct DecodeLimits {
  std::size_t max_bytes = 16u << 20;
  std::size_t max_elements = 4u << 20;  // total over all containers of the message
  std::size_t max_memory = 256u << 20;  // bytes of the decoded elements
};

class Writer {
 public:
  Writer() : Writer(Bytes()) {}
  // Reuses the memory of these bytes.
  explicit Writer(Bytes memory) : bytes_(std::move(memory)) {
    if (bytes_.size() < most_are_smaller) bytes_.resize(most_are_smaller);
  }

  void nil() { byte(0xc0); }
  void boolean(bool value) { byte(value ? 0xc3 : 0xc2); }
  void unsigned_integer(std::uint64_t value) {
    value < 0x80 ? byte(static_cast<unsigned>(value)) : long_integer(value);
  }
  void integer(std::int64_t value);
  void text(std::string_view value);
  void binary(std::span<const std::byte> value);
  void id(std::uint64_t high, std::uint64_t low);  // as binary of 16 bytes
  void array(std::size_t count) {
    count < 16 ? byte(0x90u | static_cast<unsigned>(count)) : long_array(count);
  }
  void map(std::size_t count);
  // one value from encode()
  void encoded(std::span<const std::byte> value) { raw(value.data(), value.size()); }

  // Returns the written bytes. The writer must not be used afterwards.
  Bytes take() {
    bytes_.resize(written_);
    return std::move(bytes_);
  }

 private:
  // bytes; for example a call without arguments
  static constexpr std::size_t most_are_smaller = 320;

  // Appends `size` bytes for the caller to fill.
  std::byte* extend(std::size_t size) {
    if (size > bytes_.size() - written_) bytes_.resize(written_ + std::max(size, most_are_smaller));
    std::byte* const begin = bytes_.data() + written_;
    written_ += size;
    return begin;
  }
  void byte(unsigned value) { *extend(1) = static_cast<std::byte>(value); }
  void long_integer(std::uint64_t value);
  void long_array(std::size_t count);
  void tagged(unsigned tag, std::uint64_t value, int width);
  void raw(const void* data, std::size_t size);

  Bytes bytes_;  // written bytes, then spare capacity
  std::size_t written_ = 0;
};

// Reads the expected values in order. After the first fault every read returns a default, and
// `failed` stays true, so callers check once at the end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes, DecodeLimits limits = {});

  // Most parts of messages take one byte and are read inline.
  bool nil() { return consume(0xc0); }  // consumes a nil if one is next
  bool boolean() { return consume(0xc3) || (!consume(0xc2) && no_boolean()); }
  std::uint64_t unsigned_integer() {
    return peek() < 0x80 ? static_cast<std::uint64_t>(bytes_[at_++]) : long_unsigned();
  }
  std::int64_t integer() {
    return peek() < 0x80 ? static_cast<std::int64_t>(bytes_[at_++]) : long_integer();
  }
  std::string text();
  std::span<const std::byte> binary();
  Hash128 id();  // binary of 16 bytes
  std::size_t array();
  std::size_t map();
  std::span<const std::byte> skip();                  // bytes of one skipped value of any kind
  bool take(std::span<const std::byte> whole_value);  // consumes the value if it is next
  std::size_t position() const { return at_; }
  std::span<const std::byte> since(std::size_t position) const {
    return bytes_.subspan(position, at_ - position);
  }
  // Counts memory that decoded elements will use, and fails above the limit: an empty struct has
  // one byte on the wire and hundreds in memory.
  bool claim(std::size_t elements, std::size_t bytes_each);

  bool failed() const { return !fault_.empty(); }
  void fail(std::string_view why);
  const std::string& fault() const { return fault_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  static constexpr unsigned nothing = 0xc1;  // the one byte that msgpack never uses

  unsigned peek() const {
    return at_ < bytes_.size() ? static_cast<unsigned>(bytes_[at_]) : nothing;
  }
  bool consume(unsigned tag) {
    const bool is_next = peek() == tag;
    at_ += is_next;
    return is_next;
  }
  bool no_boolean();
  std::uint64_t long_unsigned();
  std::int64_t long_integer();
  unsigned next_byte();
  std::span<const std::byte> text_bytes();
  std::uint64_t big_endian(int width);
  std::span<const std::byte> raw(std::size_t size);
  std::size_t count(std::size_t elements, std::size_t per_element);
  void skip_nested(int depth);

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::size_t elements_left_;
  std::size_t memory_left_;
  std::string fault_;
};

}  // namespace mobula::internal
