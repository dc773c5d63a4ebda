// Encodes and decodes any plain struct with a field list, and the values in it, over the streams of
// msgpack_stream.h. Whole messages use encode() and decode().
// Thread: any.
// Errors: corrupt, for bytes from outside that exceed a limit or are malformed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/containers/copy_on_write.h"
#include "base/fields.h"
#include "base/id.h"
#include "base/model/error_record.h"
#include "base/model/payload.h"
#include "base/model/resources.h"
#include "base/quantity.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/codec/msgpack_stream.h"

namespace mobula::internal {

struct CallForm;
struct Endpoint;
struct TensorRecord;

// ---- writing -----------------------------------------------------------------------------------

inline void write(Writer& out, bool value) { out.boolean(value); }
inline void write(Writer& out, const std::string& value) { out.text(value); }
inline void write(Writer& out, const Bytes& value) { out.binary(value); }
inline void write(Writer& out, const Payload& value) { out.binary(value.bytes()); }
inline void write(Writer& out, Quantity value) { out.integer(value.units()); }
inline void write(Writer& out, Duration value) { out.integer(value.count()); }
inline void write(Writer& out, Time value) { out.integer(value.ns()); }
void write(Writer& out, Hash128 value);
void write(Writer& out, const ResourceSet& value);
void write(Writer& out, const Failure& value);

template <class T>
requires std::is_integral_v<T>
void write(Writer& out, T value) {
  if constexpr (std::is_signed_v<T>) {
    out.integer(value);
  } else {
    out.unsigned_integer(value);
  }
}
inline void write(Writer& out, ErrorKind value) { write(out, message_number(value)); }
template <class T>
requires std::is_enum_v<T>
void write(Writer& out, T value) { out.unsigned_integer(static_cast<std::uint64_t>(value)); }
template <class Tag>
void write(Writer& out, const Id<Tag>& value) {
  write(out, value.bits());
}

template <class T, class Allocator>
void write(Writer& out, const std::vector<T, Allocator>& values);
template <class T>
void write(Writer& out, const std::optional<T>& value);
template <class K, class V>
void write(Writer& out, const std::map<K, V>& values);
template <class A, class B>
void write(Writer& out, const std::pair<A, B>& value);
template <class... T>
void write(Writer& out, const std::variant<T...>& value);

// A form is sent as one byte string, so that it is encoded and decoded once for many calls
// (call_form_codec.cc).
void write(Writer& out, const CopyOnWrite<CallForm>& value);
// Few refs are tensors, so an absent record takes one byte.
void write(Writer& out, const CopyOnWrite<TensorRecord>& value);
void write(Writer& out, const CopyOnWrite<Endpoint>& value);
template <class T>
void write(Writer& out, const CopyOnWrite<T>& value) {
  write(out, *value);
}

template <HasFields T>
void write(Writer& out, const T& value) {
  out.array(field_count<T>);
  visit_fields(value, [&](const auto&... member) { (write(out, member), ...); });
}
template <class T, class Allocator>
void write(Writer& out, const std::vector<T, Allocator>& values) {
  out.array(values.size());
  for (const auto& each : values) write(out, each);
}
template <class T>
void write(Writer& out, const std::optional<T>& value) {
  if (!value) return out.nil();
  out.array(1);
  write(out, *value);
}
template <class K, class V>
void write(Writer& out, const std::map<K, V>& values) {
  out.map(values.size());
  for (const auto& [key, value] : values) {
    write(out, key);
    write(out, value);
  }
}
template <class A, class B>
void write(Writer& out, const std::pair<A, B>& value) {
  out.array(2);
  write(out, value.first);
  write(out, value.second);
}
// The index of an alternative is its wire number: alternatives are appended, never reordered.
template <class... T>
void write(Writer& out, const std::variant<T...>& value) {
  out.array(2);
  out.unsigned_integer(value.index());
  std::visit([&](const auto& each) { write(out, each); }, value);
}

// ---- reading -----------------------------------------------------------------------------------

inline void read(Reader& in, bool& value) { value = in.boolean(); }
inline void read(Reader& in, std::string& value) { value = in.text(); }
void read(Reader& in, Bytes& value);
void read(Reader& in, Payload& value);
inline void read(Reader& in, Quantity& value) { value = Quantity::from_units(in.integer()); }
inline void read(Reader& in, Duration& value) { value = Duration(in.integer()); }
inline void read(Reader& in, Time& value) { value = Time::from_ns(in.integer()); }
void read(Reader& in, Hash128& value);
void read(Reader& in, ResourceSet& value);
void read(Reader& in, Failure& value);

template <class T>
requires std::is_integral_v<T>
void read(Reader& in, T& value) {
  if constexpr (std::is_signed_v<T>) {
    const std::int64_t wide = in.integer();
    value = static_cast<T>(wide);
    if (value != wide) in.fail("integer out of range");
  } else {
    const std::uint64_t wide = in.unsigned_integer();
    value = static_cast<T>(wide);
    if (value != wide) in.fail("integer out of range");
  }
}
inline void read(Reader& in, ErrorKind& value) {
  std::uint8_t number = 0;
  read(in, number);
  value = error_kind_of(number);
}
// An unknown enumerator keeps its number; code that branches on it needs a default.
template <class T>
requires std::is_enum_v<T>
void read(Reader& in, T& value) {
  std::underlying_type_t<T> number{};
  read(in, number);
  value = static_cast<T>(number);
}
template <class Tag>
void read(Reader& in, Id<Tag>& value) {
  Hash128 bits;
  read(in, bits);
  value = Id<Tag>(bits);
}

template <class T, class Allocator>
void read(Reader& in, std::vector<T, Allocator>& values);
template <class T>
void read(Reader& in, std::optional<T>& value);
template <class K, class V>
void read(Reader& in, std::map<K, V>& values);
template <class A, class B>
void read(Reader& in, std::pair<A, B>& value);
template <class... T>
void read(Reader& in, std::variant<T...>& value);

void read(Reader& in, CopyOnWrite<CallForm>& value);
void read(Reader& in, CopyOnWrite<TensorRecord>& value);
void read(Reader& in, CopyOnWrite<Endpoint>& value);
template <class T>
void read(Reader& in, CopyOnWrite<T>& value) {
  T whole{};
  read(in, whole);
  value = whole == T{} ? CopyOnWrite<T>() : CopyOnWrite<T>(std::move(whole));
}

template <HasFields T>
void read(Reader& in, T& value) {
  const std::size_t given = in.array();
  std::size_t taken = 0;
  const auto take = [&](auto& member) {
    if (taken < given && !in.failed()) {
      read(in, member);
      ++taken;
    }
  };
  visit_fields(value, [&](auto&... member) { (take(member), ...); });
  for (; taken < given && !in.failed(); ++taken) in.skip();
}
template <class T, class Allocator>
void read(Reader& in, std::vector<T, Allocator>& values) {
  values.clear();
  const std::size_t count = in.array();
  if (!in.claim(count, sizeof(T))) return;
  values.reserve(std::min<std::size_t>(count, 256));
  for (std::size_t i = 0; i < count && !in.failed(); ++i) read(in, values.emplace_back());
}
template <class T>
void read(Reader& in, std::optional<T>& value) {
  value.reset();
  if (in.nil()) return;
  if (in.array() != 1) return in.fail("an optional holds one value");
  read(in, value.emplace());
}
template <class K, class V>
void read(Reader& in, std::map<K, V>& values) {
  values.clear();
  const std::size_t count = in.map();
  if (!in.claim(count, sizeof(K) + sizeof(V))) return;
  for (std::size_t i = 0; i < count && !in.failed(); ++i) {
    K key{};
    V value{};
    read(in, key);
    read(in, value);
    values.insert_or_assign(std::move(key), std::move(value));
  }
}
template <class A, class B>
void read(Reader& in, std::pair<A, B>& value) {
  if (in.array() != 2) return in.fail("a pair holds two values");
  read(in, value.first);
  read(in, value.second);
}

template <class Variant, std::size_t... Index>
bool read_alternative(Reader& in, Variant& value, std::uint64_t which,
                      std::index_sequence<Index...>) {
  return ((which == Index ? (read(in, value.template emplace<Index>()), true) : false) || ...);
}
template <class... T>
void read(Reader& in, std::variant<T...>& value) {
  if (in.array() != 2) return in.fail("a choice holds its number and its value");
  const std::uint64_t which = in.unsigned_integer();
  if (in.failed()) return;
  if (!read_alternative(in, value, which, std::index_sequence_for<T...>())) {
    in.fail("a kind of message this version does not know");
  }
}

// ---- whole messages ----------------------------------------------------------------------------

template <class T>
Bytes encode(const T& value) {
  Writer out;
  write(out, value);
  return out.take();
}

// Fails with `corrupt` unless the bytes are exactly one well-formed value within the limits.
template <class T>
Result<T> decode(std::span<const std::byte> bytes, DecodeLimits limits = {}) {
  if (bytes.size() > limits.max_bytes) {
    return failure(ErrorCode::corrupt, "message of " + std::to_string(bytes.size()) +
                                           " bytes is over the limit of " +
                                           std::to_string(limits.max_bytes));
  }
  Reader in(bytes, limits);
  T value{};
  read(in, value);
  if (!in.failed() && !in.at_end()) in.fail("bytes left over after the message");
  if (in.failed()) return failure(ErrorCode::corrupt, "message cannot be decoded: " + in.fault());
  return value;
}

// Decodes consecutive values. The limits apply to all of them in total.
template <class T>
Result<std::vector<T>> decode_all(std::span<const std::byte> bytes, DecodeLimits limits = {}) {
  if (bytes.size() > limits.max_bytes) {
    return failure(ErrorCode::corrupt,
                   "messages of " + std::to_string(bytes.size()) + " bytes are over the limit");
  }
  Reader in(bytes, limits);
  std::vector<T> values;
  while (!in.failed() && !in.at_end()) {
    if (in.claim(1, sizeof(T))) read(in, values.emplace_back());
  }
  if (in.failed()) return failure(ErrorCode::corrupt, "messages cannot be decoded: " + in.fault());
  return values;
}

}  // namespace mobula::internal
