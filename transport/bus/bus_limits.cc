// Heartbeats of a bus, and the limits of its connections.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/fd.h"
#include "transport/bus/bus_hub.h"

namespace mobula::internal {
namespace {

// Period of the checks while a connection has sent no message, or input is unread.
constexpr Duration limits_interval = 25ms;

}  // namespace

ConnectionLimits Bus::Hub::limits_of(const BusOptions& options) {
  ConnectionLimits limits = within_descriptors(options.connections, descriptor_limit());
  limits.handshake_timeout = options.handshake_timeout;
  return limits;
}

// A failed handshake is two consecutive events, and only the second one names the descriptor.
void Bus::Hub::note_opened(const ZmqEvent& event, bool bound) {
  using End = ConnectionGuard::End;
  const int fd = static_cast<int>(event.value);
  if (event.event == ZMQ_EVENT_ACCEPTED) guard_.opened(fd, true, monotonic_now());
  if (event.event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && bound) guard_.handshake_succeeded();
  if (event.event == ZMQ_EVENT_CONNECTED) guard_.opened(fd, false, monotonic_now());
  if (event.event == ZMQ_EVENT_DISCONNECTED) {
    guard_.ended(fd, bound ? end_of_handshake_ : End::unknown);
  }
  if (!bound) return;
  end_of_handshake_ = event.event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL    ? End::protocol_error
                      : event.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH      ? End::key_rejected
                      : event.event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ? End::peer_closed
                                                                            : End::unknown;
}

void Bus::Hub::trust(PeerHandle handle) {
  Peer* const peer = find(handle);
  if (peer == nullptr || !peer->origin->accepted) return;
  peer->trusted = true;
  guard_.proven(peer->fd);
}

// ---- limits ------------------------------------------------------------------------------------

bool Bus::Hub::is_proven(const Peer& peer) const {
  return !options_.keys || !peer.origin->accepted || peer.origin->local || peer.trusted ||
         peer.origin->user_id != unproven_user;
}

bool Bus::Hub::read_some(Peer& peer) {
  std::size_t bytes = 0;
  for (const zmq::message_t& frame : frames_) bytes += frame.size();
  peer.last_tick = tick_;
  peer.read_bytes += bytes;
  if (bytes == 0) peer.sends_heartbeats = true;
  const std::size_t limit = options_.connections.max_unproven_bytes;
  if (peer.read_bytes <= limit || is_proven(peer)) return true;
  reject(peer.handle, failure(ErrorCode::permission_denied,
                              fmt::format("{} bytes arrived before a key was proven; the limit "
                                          "is {}",
                                          peer.read_bytes, limit)));
  return false;
}

std::optional<std::uint64_t> Bus::Hub::read_bytes(int fd) const {
  PeerHandle latest;  // an earlier accepted peer with this `fd` has ended
  const auto [first, last] = accepted_of_fd_.equal_range(fd);
  for (auto at = first; at != last; ++at) latest = std::max(latest, at->second);
  const auto connected = connected_of_fd_.find(fd);
  if (!latest && connected != connected_of_fd_.end()) latest = connected->second;
  const auto at = peers_.find(latest);
  if (at == peers_.end()) return std::nullopt;
  return at->second.read_bytes;
}

void Bus::Hub::arm_limits() {
  if (closed_ || limits_timer_.armed()) return;
  if (all_read_ && !guard_.has_silent()) return;
  limits_timer_.arm(monotonic_now() + limits_interval);
}

void Bus::Hub::check_limits() {
  const auto self = shared_from_this();
  const bool known_keys_alone =
      options_.allow != nullptr && options_.allow->unknown() == UnknownKeys::refuse;
  guard_.check(std::exchange(all_read_, true), known_keys_alone, monotonic_now());
  if (!closed_) touch();  // an incomplete read continues, and arms the timer again
}

// ---- heartbeats --------------------------------------------------------------------------------

void Bus::Hub::arm_heartbeats() {
  if (closed_ || heartbeat_timer_.armed()) return;
  ticked_at_ = monotonic_now();
  heartbeat_timer_.arm(ticked_at_ + options_.heartbeat_interval);
}

// A process that was stopped, or whose loop was late, ends no peer in that tick.
void Bus::Hub::send_heartbeats() {
  const auto self = shared_from_this();
  const Time now = monotonic_now();
  const bool on_time = now - ticked_at_ < 2 * options_.heartbeat_interval;
  ++tick_;
  const std::uint64_t limit = chunk_limits_of(options_).stall_ticks;
  std::vector<PeerHandle> silent;
  bool any = false;
  for (auto& [handle, peer] : peers_) {
    if (peer.stage != Stage::up || peer.cut) continue;
    any = true;
    if (!on_time) peer.last_tick = std::max(peer.last_tick, tick_ - 1);
    if (peer.sends_heartbeats && tick_ - peer.last_tick > limit) silent.push_back(handle);
    zmq::message_t empty;
    if (peer.outbox.empty()) (void)try_send(peer, empty);
  }
  const auto end_each = [&](PeerHandle handle, std::string_view why) {
    Peer* const peer = closed_ ? nullptr : find(handle);
    if (peer == nullptr) return;
    close_peer(*peer,
               failure(ErrorCode::unavailable, fmt::format("the peer has sent {} for {} ms", why,
                                                           options_.heartbeat_timeout / 1ms)));
  };
  for (const PeerHandle handle : silent) end_each(handle, "nothing");
  for (const std::uint64_t handle : assembler_.stalled(tick_)) {
    end_each(PeerHandle{handle}, "no further chunk of its message");
  }
  if (closed_) return;
  if (any) arm_heartbeats();
}

void Bus::Hub::close_peer(Peer& peer, const Failure& why) {
  if (!peer.origin->accepted) return end(peer, why);
  // Messages that libzmq still holds for this peer must not be taken for those of a new peer.
  const PeerHandle handle = peer.handle;
  const bool announced = peer.announced;
  guard_.close(peer.fd, why.text);
  disconnect(handle);
  if (announced && !closed_ && callbacks_.on_gone) callbacks_.on_gone(handle, why);
}

// The peer broke a rule of the bus, so the connection is closed and reported in both directions.
void Bus::Hub::reject(PeerHandle handle, const Failure& why) {
  Peer* peer = find(handle);
  if (peer != nullptr && !peer->origin->accepted) guard_.close(peer->fd, why.text);
  peer = closed_ ? nullptr : find(handle);
  if (peer != nullptr) close_peer(*peer, why);
}

}  // namespace mobula::internal
