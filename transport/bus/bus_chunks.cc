// Large messages of a bus, which it sends and receives in chunks (decision 86).
#include <fmt/format.h>

#include <algorithm>

#include "transport/bus/bus_hub.h"

namespace mobula::internal {

namespace {

using SharedMessage = std::shared_ptr<zmq::message_t>;

// Runs on a thread of libzmq after the chunk was sent or dropped.
void release_shared_message(void* /*bytes*/, void* owner) {
  delete static_cast<SharedMessage*>(owner);
}

}  // namespace

ChunkLimits Bus::Hub::chunk_limits_of(const BusOptions& options) {
  ChunkLimits limits;
  limits.chunk_bytes = options.chunk_bytes;
  limits.max_message_bytes = options.max_message_bytes;
  limits.max_open_bytes = options.max_open_bytes;
  limits.stall_ticks =
      static_cast<std::uint64_t>(options.heartbeat_timeout / options.heartbeat_interval);
  return limits;
}

// ---- capability --------------------------------------------------------------------------------

// The first message of each direction. A bus of the previous release drops it as malformed.
void Bus::Hub::announce(Peer& peer) {
  const ChunkHeader header{ChunkKind::announcement, 0, 0, 0,
                           static_cast<std::uint32_t>(options_.chunk_bytes)};
  const auto bytes = header.encode();
  const bool bound = peer.origin->accepted;
  zmq::socket_t& router = bound ? sockets_->bound().router : sockets_->connecting().router;
  touch(bound);
  if (!mobula::internal::send(router, peer.route, ZMQ_SNDMORE)) return;
  zmq::message_t first(bytes.data(), bytes.size());
  zmq::message_t empty;
  if (mobula::internal::send(router, first, ZMQ_SNDMORE)) {
    (void)mobula::internal::send(router, empty);
  }
}

void Bus::Hub::learn_framing(Peer& peer, const std::optional<ChunkHeader>& header) {
  const bool announces = header && header->kind == ChunkKind::announcement &&
                         header->chunk_bytes >= ChunkLimits::min_chunk_bytes;
  peer.framing = announces ? Framing::chunks : Framing::whole;
  peer.max_frame_bytes = options_.max_message_bytes;
  if (!announces) return;
  peer.max_frame_bytes = std::min<std::size_t>(header->chunk_bytes, options_.chunk_bytes);
  if (peer.origin->accepted) announce(peer);
}

// ---- output ------------------------------------------------------------------------------------

// Until the peer's first message, a large message waits, and later ones wait behind it. An empty
// message makes a peer of the previous release send its first heartbeat.
Result<void> Bus::Hub::send_large(Peer& peer, zmq::message_t body) {
  const bool first = peer.outbox.empty();
  if (auto queued = queue(peer, std::move(body)); !queued) return queued;
  const bool has_route = peer.stage == Stage::connecting || peer.stage == Stage::up;
  if (!first || !has_route) return {};
  if (peer.framing == Framing::unknown) {
    zmq::message_t empty;
    (void)try_send(peer, empty);
    return {};
  }
  const Sent sent = flush(peer);
  if (peer.outbox.empty()) blocked_.erase(peer.handle);
  if (sent != Sent::unroutable) return {};
  return failure(ErrorCode::not_found, "send on the bus: the peer's connection has ended");
}

Bus::Hub::Sent Bus::Hub::send_chunks(Peer& peer, Outgoing& message) {
  while (message.sent < message.body->size()) {
    if (const Sent sent = try_send_chunk(peer, message); sent != Sent::yes) return sent;
    const std::size_t size = std::min(peer.max_frame_bytes, message.body->size() - message.sent);
    message.sent += size;
    peer.outbox_bytes -= size;
  }
  ++peer.chunked_messages;
  ++counters_.sent;
  return Sent::yes;
}

// libzmq reads the chunk from the shared message, which the last chunk releases.
Bus::Hub::Sent Bus::Hub::try_send_chunk(Peer& peer, const Outgoing& message) {
  const bool bound = peer.origin->accepted;
  touch(bound);
  zmq::socket_t& router = bound ? sockets_->bound().router : sockets_->connecting().router;
  if (!mobula::internal::send(router, peer.route, ZMQ_SNDMORE)) {
    return zmq_errno() == EAGAIN ? Sent::full : Sent::unroutable;
  }
  const auto chunk_bytes = static_cast<std::uint32_t>(peer.max_frame_bytes);
  const ChunkHeader header{ChunkKind::chunk, peer.chunked_messages + 1, message.body->size(),
                           static_cast<std::uint32_t>(message.sent / chunk_bytes), chunk_bytes};
  const auto bytes = header.encode();
  zmq::message_t first(bytes.data(), bytes.size());
  zmq::message_t chunk(message.body->data<std::byte>() + message.sent, header.payload_bytes(),
                       release_shared_message, new SharedMessage(message.body));
  if (!mobula::internal::send(router, first, ZMQ_SNDMORE)) return Sent::unroutable;
  return mobula::internal::send(router, chunk) ? Sent::yes : Sent::unroutable;
}

// ---- input -------------------------------------------------------------------------------------

bool Bus::Hub::keeps_framing(const Peer& peer, std::size_t body_bytes) {
  if (peer.assembling) {
    reject(peer.handle, failure(ErrorCode::corrupt,
                                "receive from the bus: a message begins inside another message"));
    return false;
  }
  if (body_bytes <= options_.chunk_bytes) return true;
  reject(peer.handle,
         failure(ErrorCode::corrupt,
                 fmt::format("receive from the bus: a frame has {} bytes, and the peer "
                             "accepted the limit of {}",
                             body_bytes, options_.chunk_bytes)));
  return false;
}

void Bus::Hub::take_chunk(PeerHandle handle, const ChunkHeader& header, zmq::message_t& body) {
  while (const auto excess = assembler_.excess(handle.value, header)) {
    reject(PeerHandle{*excess},
           failure(ErrorCode::resource_exhausted,
                   fmt::format("receive from the bus: {} bytes of incomplete messages; this "
                               "one has waited longest for its next chunk",
                               assembler_.open_bytes())));
    if (closed_ || PeerHandle{*excess} == handle) return;
  }
  Peer* const peer = find(handle);
  if (peer == nullptr) return;
  const bool proven = !options_.keys || !peer->origin->accepted || peer->origin->local ||
                      peer->trusted || peer->origin->user_id != unproven_user;
  if (peer->framing != Framing::chunks || !proven) {
    return reject(handle, failure(ErrorCode::permission_denied,
                                  "receive from the bus: a chunk of a peer that announced none "
                                  "or has not proven its key"));
  }
  auto added = assembler_.add(handle.value, header, bytes_of(body), tick_);
  counters_.open_bytes = assembler_.open_bytes();
  if (!added) return reject(handle, added.error());
  peer->assembling = !added->has_value();
  if (peer->assembling) return;
  peer->announced = true;
  ++counters_.received;
  const auto origin = peer->origin;
  if (callbacks_.on_message) callbacks_.on_message(handle, *origin, **added);
}

void Bus::Hub::drop_incomplete(Peer& peer) {
  if (!peer.assembling) return;
  peer.assembling = false;
  assembler_.drop(peer.handle.value);
  counters_.open_bytes = assembler_.open_bytes();
}

}  // namespace mobula::internal
