// Large messages of a bus, which it sends and receives in chunks (decision 86).
#include <fmt/format.h>

#include <algorithm>

#include "transport/bus/bus_hub.h"

namespace mobula::internal {

namespace {

// Runs on a thread of libzmq after the chunk was sent or dropped.
void release_shared_message(void* /*bytes*/, void* owner) {
  delete static_cast<std::shared_ptr<zmq::message_t>*>(owner);
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

std::size_t Bus::Hub::frame_limit(const Peer& peer) const {
  const bool listens = !peer.origin->accepted && !peer.origin->local;
  return listens ? ChunkLimits::frame_bytes : options_.chunk_bytes;
}

// ---- output ------------------------------------------------------------------------------------

Result<void> Bus::Hub::send_large(Peer& peer, std::span<const std::byte> bytes) {
  const bool first = peer.outbox.empty();
  const bool has_route = peer.stage == Stage::connecting || peer.stage == Stage::up;
  Sent sent = Sent::full;
  if (first && has_route && bytes.size() <= options_.chunk_bytes) {
    sent = send_chunk(peer, bytes, 0, nullptr);
    if (sent == Sent::yes) return {};
  }
  if (sent == Sent::full) {
    if (auto queued = queue(peer, zmq::message_t(bytes.data(), bytes.size())); !queued)
      return queued;
    if (!first || !has_route) return {};
    sent = flush(peer);
  }
  if (peer.outbox.empty()) blocked_.erase(peer.handle);
  if (sent != Sent::unroutable) return {};
  return failure(ErrorCode::not_found, "send on the bus: the peer's connection has ended");
}

Bus::Hub::Sent Bus::Hub::send_chunks(Peer& peer, Outgoing& message) {
  while (message.sent < message.body->size()) {
    const Sent sent = send_chunk(peer, bytes_of(*message.body), message.sent, &message.body);
    if (sent != Sent::yes) return sent;
    const std::size_t size = std::min(options_.chunk_bytes, message.body->size() - message.sent);
    message.sent += size;
    peer.outbox_bytes -= size;
  }
  return Sent::yes;
}

// With `owner`, libzmq reads the frames from the shared message, which the last frame releases.
// Otherwise the frames are copies.
Bus::Hub::Sent Bus::Hub::send_chunk(Peer& peer, std::span<const std::byte> message,
                                    std::size_t begin, const SharedMessage* owner) {
  const bool bound = peer.origin->accepted;
  touch(bound);
  zmq::socket_t& router = bound ? sockets_->bound().router : sockets_->connecting().router;
  if (!mobula::internal::send(router, peer.route, ZMQ_SNDMORE)) {
    return zmq_errno() == EAGAIN ? Sent::full : Sent::unroutable;
  }
  const auto chunk_bytes = static_cast<std::uint32_t>(options_.chunk_bytes);
  const ChunkHeader header{peer.chunked_messages + 1, message.size(),
                           static_cast<std::uint32_t>(begin / chunk_bytes), chunk_bytes};
  const auto bytes = header.encode();
  zmq::message_t first(bytes.data(), bytes.size());
  if (!mobula::internal::send(router, first, ZMQ_SNDMORE)) return Sent::unroutable;
  const std::size_t end = begin + header.payload_bytes();
  const std::size_t frame_bytes = frame_limit(peer);
  for (std::size_t at = begin; at < end; at += frame_bytes) {
    const auto part = message.subspan(at, std::min(frame_bytes, end - at));
    zmq::message_t frame = owner == nullptr
                               ? zmq::message_t(part.data(), part.size())
                               : zmq::message_t(const_cast<std::byte*>(part.data()), part.size(),
                                                release_shared_message, new SharedMessage(*owner));
    if (!mobula::internal::send(router, frame, at + part.size() < end ? ZMQ_SNDMORE : 0))
      return Sent::unroutable;
  }
  if (end < message.size()) return Sent::yes;
  ++peer.chunked_messages;
  ++counters_.sent;
  return Sent::yes;
}

// ---- input -------------------------------------------------------------------------------------

void Bus::Hub::take_chunk(PeerHandle handle, const ChunkHeader& header) {
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
  if (!is_proven(*peer)) {
    return reject(handle, failure(ErrorCode::permission_denied,
                                  "receive from the bus: a chunk of a peer that has not proven "
                                  "its key"));
  }
  auto added = assembler_.add(handle.value, header, frames_, tick_);
  counters_.open_bytes = assembler_.open_bytes();
  if (!added) return reject(handle, added.error());
  peer->assembling = !*added;
  if (peer->assembling) return;
  // Keeps the memory of messages of one chunk, because new memory costs page faults.
  std::vector<std::byte> whole = std::exchange(assembled_, {});
  assembler_.take(handle.value, whole);
  counters_.open_bytes = assembler_.open_bytes();
  peer->announced = true;
  ++counters_.received;
  const auto origin = peer->origin;
  if (callbacks_.on_message) callbacks_.on_message(handle, *origin, whole);
  if (whole.capacity() <= options_.chunk_bytes) assembled_ = std::move(whole);
}

void Bus::Hub::drop_incomplete(Peer& peer) {
  if (!peer.assembling) return;
  peer.assembling = false;
  assembler_.drop(peer.handle.value);
  counters_.open_bytes = assembler_.open_bytes();
}

}  // namespace mobula::internal
