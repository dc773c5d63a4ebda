#include "transport/tensor/tcp/tcp_wire.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal {
namespace {

constexpr std::size_t max_tcp_address = 512;

template <std::size_t size>
std::array<std::byte, size> take_array(BlobReader& from) {
  std::array<std::byte, size> made{};
  const auto bytes = from.raw(size);
  std::copy(bytes.begin(), bytes.end(), made.begin());
  return made;
}

}  // namespace

Blob TcpEndpoint::encode() const {
  BlobWriter to;
  put_direct_head(to, DirectKind::tcp);
  return to.id(process).text(address).take();
}

Result<TcpEndpoint> TcpEndpoint::decode(std::span<const std::byte> bytes) {
  BlobReader from(bytes);
  if (auto good = take_direct_head(from, DirectKind::tcp, "an endpoint"); !good) {
    return good.error();
  }
  TcpEndpoint made;
  made.process = from.id<ProcessId>();
  made.address = from.text(max_tcp_address);
  if (auto good = from.finish("an endpoint"); !good) return good.error();
  return made;
}

Blob TcpTicket::encode() const {
  BlobWriter to;
  put_direct_head(to, kind);
  to.id(holder).id(receiver).id(transfer).number(epoch);
  to.raw(right.token).byte(right.key ? 1 : 0);
  if (right.key) to.raw(*right.key);
  to.token(token).number(sizes.size());
  for (const std::uint64_t size : sizes) to.number(size);
  return to.take();
}

Result<TcpTicket> TcpTicket::decode(std::span<const std::byte> bytes, const DirectLimits& limits,
                                    DirectKind kind) {
  if (bytes.size() > limits.max_ticket_bytes) {
    return failure(ErrorCode::corrupt, fmt::format("a ticket of {} bytes", bytes.size()));
  }
  BlobReader from(bytes);
  if (auto good = take_direct_head(from, kind, "a ticket"); !good) return good.error();
  TcpTicket made;
  made.kind = kind;
  made.holder = from.id<ProcessId>();
  made.receiver = from.id<ProcessId>();
  made.transfer = from.id<TransferId>();
  made.epoch = from.number();
  made.right.token = take_array<std::tuple_size_v<BulkToken>>(from);
  const std::uint8_t sealed = from.byte();
  if (sealed > 1) from.break_off();
  if (sealed == 1) made.right.key = take_array<std::tuple_size_v<SealKey>>(from);
  made.token = from.token();
  const std::uint64_t count = from.number();
  if (count > limits.max_regions) from.break_off();
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < count && !from.broken(); ++i) {
    made.sizes.push_back(from.number());
    if (made.sizes.back() > limits.max_bytes - all) from.break_off();
    all += made.sizes.back();
  }
  if (auto good = from.finish("a ticket"); !good) return good.error();
  return made;
}

Blob TcpRequest::encode() const {
  BlobWriter to;
  return to.id(transfer)
      .token(token)
      .number(chunk.region)
      .number(chunk.offset)
      .number(chunk.size)
      .take();
}

Result<TcpRequest> TcpRequest::decode(std::span<const std::byte> bytes) {
  BlobReader from(bytes);
  TcpRequest made;
  made.transfer = from.id<TransferId>();
  made.token = from.token();
  made.chunk.region = from.number();
  made.chunk.offset = from.number();
  made.chunk.size = from.number();
  if (auto good = from.finish("a request for a chunk"); !good) return good.error();
  return made;
}

}  // namespace mobula::internal
