#include "client/api/untyped/untyped_payload.h"

#include <mobula/dynamic.h>
#include <mobula/errors.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace mobula {
namespace internal::client {
namespace {

constexpr std::size_t longest_format = 255;

// Not in the list of parts of the value: a reader checks each number against the remaining bytes.
struct Counts {
  std::uint32_t buffers = 0;
  std::uint32_t refs = 0;
  std::uint32_t actors = 0;
  std::uint32_t tensors = 0;
  std::uint64_t body_bytes = 0;
};
static_assert(sizeof(Counts) == 24);

// A value that is only a body has no counts on the wire, so that a small one fits into the inline
// bytes of a message (base/model/payload.h).
struct Prefix : Counts {
  std::uint8_t format_bytes = 0;
};

std::uint32_t number_of(std::size_t count) { return static_cast<std::uint32_t>(count); }

Prefix read_prefix(mobula::Reader& in) {
  Prefix prefix;
  std::uint8_t has_counts = 0;
  in.read_bytes(&has_counts, sizeof has_counts);
  in.read_bytes(&prefix.format_bytes, sizeof prefix.format_bytes);
  if (has_counts > 1) detail::throw_corrupt("an untyped value has an unknown header");
  if (has_counts == 1) {
    in.read_bytes(static_cast<Counts*>(&prefix), sizeof(Counts));
  } else if (in.remaining() >= prefix.format_bytes) {
    prefix.body_bytes = in.remaining() - prefix.format_bytes;
  }
  return prefix;
}

void write_prefix(mobula::Writer& out, const Prefix& prefix, bool has_counts) {
  const std::uint8_t first = has_counts ? 1 : 0;
  out.write_bytes(&first, sizeof first);
  out.write_bytes(&prefix.format_bytes, sizeof prefix.format_bytes);
  if (has_counts) out.write_bytes(static_cast<const Counts*>(&prefix), sizeof(Counts));
}

// A ref takes 4 bytes, a tensor at least one.
void check_counts(const Prefix& prefix, const mobula::Reader& in) {
  const std::size_t least = std::size_t{prefix.buffers} * sizeof(std::uint64_t) +
                            (std::size_t{prefix.refs} + prefix.actors) * sizeof(std::uint32_t) +
                            prefix.tensors + prefix.format_bytes;
  if (least > in.remaining() || prefix.body_bytes > in.remaining() - least)
    detail::throw_corrupt("an untyped value names more parts than it has");
}

bool is_aligned(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % detail::block_alignment == 0;
}

// Values inside messages may be at any address. Their buffers are copied into aligned memory.
void align_buffers(dynamic::Payload::Parts& parts) {
  for (auto& each : parts.buffers) {
    if (each.empty()) each = {};
  }
  if (std::ranges::all_of(parts.buffers, is_aligned)) return;
  struct alignas(detail::block_alignment) Block {
    std::byte bytes[detail::block_alignment];
  };
  struct Copy {
    std::vector<Block> blocks;
    std::shared_ptr<const void> stored;  // shared with the value: it has the body
  };
  const auto blocks_of = [](std::size_t bytes) {
    return (bytes + detail::block_alignment - 1) / detail::block_alignment;
  };
  std::size_t count = 0;
  for (const auto& each : parts.buffers) count += blocks_of(each.size());
  auto copy = std::make_shared<Copy>(Copy{std::vector<Block>(count), std::move(parts.owner)});
  Block* next = copy->blocks.data();
  for (auto& each : parts.buffers) {
    if (each.empty()) continue;
    std::ranges::copy(each, next->bytes);
    each = {next->bytes, each.size()};
    next += blocks_of(each.size());
  }
  parts.owner = std::move(copy);
}

}  // namespace

std::string_view read_format(mobula::Reader& in) {
  const Prefix prefix = read_prefix(in);
  check_counts(prefix, in);
  in.take(prefix.buffers * sizeof(std::uint64_t));
  const auto bytes = in.take(prefix.format_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace internal::client

namespace dynamic {

using internal::client::Prefix;
using internal::client::untyped_fingerprint;

Payload::Payload(std::string_view format, Parts parts)
    : Outgoing(untyped_fingerprint), format_(format), parts_(std::move(parts)) {
  if (format.empty() || format.size() > internal::client::longest_format) {
    throw InvalidRequestError("making a payload: the name of its format has " +
                              std::to_string(format.size()) + " bytes; it needs 1 to 255");
  }
  if (!parts_.refs.empty() || !parts_.actors.empty()) {
    const auto runtime = detail::runtime();
    for (const AnyRef& each : parts_.refs) (void)detail::require_id(each.anchor().get(), runtime);
    for (const AnyActor& each : parts_.actors)
      (void)detail::require_id(each.anchor().get(), runtime);
  }
  measure();
}

void Payload::fill(mobula::Writer& out) const {
  using internal::client::number_of;
  Prefix prefix;
  prefix.format_bytes = static_cast<std::uint8_t>(format_.size());
  prefix.buffers = number_of(parts_.buffers.size());
  prefix.refs = number_of(parts_.refs.size());
  prefix.actors = number_of(parts_.actors.size());
  prefix.tensors = number_of(parts_.tensors.size());
  prefix.body_bytes = parts_.body.size();
  const bool is_body = parts_.buffers.empty() && parts_.refs.empty() && parts_.actors.empty() &&
                       parts_.tensors.empty();
  internal::client::write_prefix(out, prefix, !is_body);
  for (const auto& each : parts_.buffers) out.write_count(each.size());
  out.write_bytes(format_.data(), format_.size());
  out.write_bytes(parts_.body.data(), parts_.body.size());
  for (const AnyRef& each : parts_.refs) out.write_ref(each.anchor()->ref());
  for (const AnyActor& each : parts_.actors) out.write_ref(each.anchor()->ref());
  for (const Tensor& each : parts_.tensors) out.write(each);
  for (const auto& each : parts_.buffers) {
    out.align_to(detail::block_alignment);
    out.write_bytes(each.data(), each.size());
  }
}

StoredPayload::StoredPayload(std::shared_ptr<const detail::StoredValue> stored)
    : stored_(std::move(stored)) {}

std::string_view StoredPayload::format() const {
  if (!stored_) return {};
  const std::string_view typed = internal::client::typed_format;
  if (!detail::has_fingerprint(*stored_, untyped_fingerprint)) return typed;
  mobula::Reader in = detail::open_value(*stored_, untyped_fingerprint, "an untyped value");
  return internal::client::read_format(in);
}

Payload::Parts StoredPayload::parts() const { return parts({}); }

Payload::Parts StoredPayload::parts(std::string_view expected) const {
  const auto check_format = [&](std::string_view found) {
    if (expected.empty() || found == expected) return;
    throw SerializationError("reading a value in format \"" + std::string(expected) +
                             "\": it was written in format \"" + std::string(found) + "\"");
  };
  Payload::Parts parts;
  if (!stored_) {
    check_format({});
    return parts;
  }
  if (!detail::has_fingerprint(*stored_, untyped_fingerprint)) {
    check_format(internal::client::typed_format);
    throw SerializationError(
        "reading the parts of a value: it was written in format \"c++\"; read it by the typed API");
  }
  mobula::Reader in = detail::open_value(*stored_, untyped_fingerprint, "an untyped value");
  const Prefix prefix = internal::client::read_prefix(in);
  internal::client::check_counts(prefix, in);
  std::vector<std::uint64_t> sizes(prefix.buffers);
  in.read_bytes(sizes.data(), sizes.size() * sizeof(std::uint64_t));
  const auto name = in.take(prefix.format_bytes);
  check_format({reinterpret_cast<const char*>(name.data()), name.size()});
  parts.body = in.take(prefix.body_bytes);
  parts.refs.reserve(prefix.refs);
  for (std::uint32_t i = 0; i < prefix.refs; ++i) {
    const auto kind = detail::RefKind::object;
    parts.refs.emplace_back(detail::Anchor::retain({kind, in.read_ref(kind)}));
  }
  parts.actors.reserve(prefix.actors);
  for (std::uint32_t i = 0; i < prefix.actors; ++i) {
    const auto kind = detail::RefKind::actor;
    parts.actors.emplace_back(detail::Anchor::retain({kind, in.read_ref(kind)}));
  }
  parts.tensors.reserve(prefix.tensors);
  for (std::uint32_t i = 0; i < prefix.tensors; ++i) parts.tensors.push_back(in.read<Tensor>());
  parts.buffers.reserve(prefix.buffers);
  for (const std::uint64_t size : sizes) {
    in.align_to(detail::block_alignment);
    parts.buffers.push_back(in.take(size));
  }
  detail::require_end(in);
  parts.owner = stored_->owner;
  internal::client::align_buffers(parts);
  return parts;
}

}  // namespace dynamic
}  // namespace mobula
