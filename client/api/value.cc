#include <mobula/detail/value.h>

#include <cstring>
#include <string>

#include <mobula/errors.h>

#include "base/check.h"
#include "client/api/conversions.h"
#include "client/api/untyped/untyped_payload.h"

namespace mobula::detail {

namespace {

// "MOB" and the version of the format.
constexpr std::uint32_t format_mark = 0x01424f4d;
constexpr std::size_t header_bytes = 16;

void write_header(Writer& out, std::uint64_t fingerprint) {
  const std::uint32_t reserved = 0;
  out.write_bytes(&format_mark, sizeof format_mark);
  out.write_bytes(&reserved, sizeof reserved);
  out.write_bytes(&fingerprint, sizeof fingerprint);
}

}  // namespace

Outgoing::~Outgoing() = default;

void Outgoing::write_all(Writer& out) const {
  write_header(out, fingerprint_);
  fill(out);
}

void Outgoing::measure() const {
  Writer counting(apart_from_, origins_);
  write_all(counting);
  size_bytes_ = counting.position();
  contained_ = counting.take_contained();
  apart_ = counting.take_apart();
}

void Outgoing::set_apart(std::size_t from_bytes, Origins origins) const {
  apart_from_ = from_bytes;
  origins_ = origins;
  measure();
}

bool Outgoing::write(std::span<std::byte> into) const noexcept {
  try {
    Writer out(into, apart_from_, origins_);
    write_all(out);
    if (out.position() != into.size()) throw_unwritable("it shrank while it was written");
    return true;
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }
}

void Outgoing::rethrow_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

namespace {

std::uint64_t read_header(Reader& in) {
  if (in.remaining() < header_bytes) throw_corrupt("it has no header");
  std::uint32_t mark = 0;
  std::uint32_t reserved = 0;
  std::uint64_t found = 0;
  in.read_bytes(&mark, sizeof mark);
  in.read_bytes(&reserved, sizeof reserved);
  in.read_bytes(&found, sizeof found);
  if (mark != format_mark || reserved != 0) throw_corrupt("its header is of another format");
  return found;
}

[[noreturn]] void refuse_type(Reader& in, std::uint64_t found, std::string_view type) {
  const std::string reading = "reading a value as " + std::string(type);
  if (found != internal::client::untyped_fingerprint) {
    throw SerializationError(reading + ": it was written as another type; use the type of the ref");
  }
  const std::string format(internal::client::read_format(in));
  throw SerializationError(reading + " (format \"c++\"): it was written in format \"" + format +
                           "\"; read it by mobula::dynamic");
}

}  // namespace

Reader open_value(const StoredValue& stored, std::uint64_t fingerprint, std::string_view type) {
  if (stored.error) throw_error(*stored.error);
  Reader in(stored.bytes, stored.contained, stored.owner, stored.apart);
  in.set_device(stored.device);
  const std::uint64_t found = read_header(in);
  if (found == fingerprint) return in;
  if (found != internal::client::untyped_fingerprint) refuse_type(in, found, type);
  const auto converted = internal::client::convert_stored(stored, fingerprint);
  if (!converted) refuse_type(in, found, type);
  // The reader keeps the converted value.
  Reader again(converted->bytes, converted->contained, converted, converted->apart);
  again.set_device(converted->device);
  MOBULA_CHECK(read_header(again) == fingerprint, "a conversion to another type");
  return again;
}

bool has_fingerprint(const StoredValue& stored, std::uint64_t fingerprint) {
  std::uint64_t found = 0;
  if (stored.bytes.size() < header_bytes) return false;
  std::memcpy(&found, stored.bytes.data() + header_bytes - sizeof found, sizeof found);
  return found == fingerprint;
}

void require_end(const Reader& in) {
  if (in.remaining() != 0) throw_corrupt("bytes are left over");
}

}  // namespace mobula::detail
