// Connection states of the peers of a bus: connecting, suspect, ended.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "transport/bus/bus_hub.h"

namespace mobula::internal {
namespace {

constexpr Duration probe_timeout = 1s;
constexpr Duration judge_interval = 1ms;
// If the route of an accepted connection still exists after this time, the event belonged to
// another connection.
constexpr Duration longest_suspicion = 200ms;
// libzmq announces its next attempt at once, or never if the peer violated the protocol.
constexpr Duration longest_loss = 20ms;
constexpr std::size_t max_idle_pauses = 1'000;

}  // namespace

Bus::Hub::Peer* Bus::Hub::find(PeerHandle handle) {
  const auto at = peers_.find(handle);
  return at == peers_.end() ? nullptr : &at->second;
}

Result<PeerHandle> Bus::Hub::connect(const std::string& address,
                                     const std::string& server_public_key) {
  if (closed_) return failure(ErrorCode::unavailable, "connect the bus: it is closed");
  auto where = Address::parse(address);
  if (!where) return where.error();
  if (!where->is_path() && where->port() == 0) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("connect the bus to {}: port 0 is for listening", address));
  }
  if (options_.keys && !where->is_path() && !is_curve_key(server_public_key)) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format(
            "connect the bus to {}: the server's public key is needed, and '{}' is not such a key",
            address, server_public_key));
  }
  const auto numeric = where->numeric();
  if (numeric && endpoints_.contains(BusSockets::endpoint_of(*numeric))) {
    return failure(ErrorCode::already_exists,
                   fmt::format("connect the bus to {}: it has a connection there", address));
  }
  const PeerHandle handle{next_handle_++};
  Peer& peer = peers_[handle];
  peer.handle = handle;
  const bool local = where->is_path();
  peer.origin = std::make_shared<const PeerOrigin>(
      PeerOrigin{false, local, {}, local ? std::string() : server_public_key});
  peer.address = std::move(where).value();
  peer.numeric = numeric;
  if (numeric) {
    peer.endpoint = BusSockets::endpoint_of(*numeric);
    endpoints_[peer.endpoint] = handle;
  } else {
    peer.endpoint = peer.address->text();  // until its name is resolved
  }
  const auto paused = pauses_.find(peer.endpoint);
  if (paused != pauses_.end() && paused->second.until > monotonic_now()) {
    pause(peer);
  } else if (auto started = start(peer); !started) {
    forget(peer);
    return started.error();
  }
  return handle;
}

Result<void> Bus::Hub::start(Peer& peer) {
  if (peer.numeric) return begin(peer, *peer.numeric);
  resolve(peer);
  return {};
}

// Waits until the backoff of the endpoint ends.
void Bus::Hub::pause(Peer& peer) {
  peer.stage = Stage::pausing;
  peer.paused_until = pauses_[peer.endpoint].until;
  Time first = peer.paused_until;
  for (const auto& [handle, other] : peers_) {
    if (other.stage == Stage::pausing) first = std::min(first, other.paused_until);
  }
  pause_timer_.arm(first);
}

void Bus::Hub::start_due() {
  const auto self = shared_from_this();
  const Time now = monotonic_now();
  std::vector<PeerHandle> due;
  std::optional<Time> next;
  for (const auto& [handle, peer] : peers_) {
    if (peer.stage != Stage::pausing) continue;
    if (peer.paused_until <= now) {
      due.push_back(handle);
    } else {
      next = std::min(next.value_or(peer.paused_until), peer.paused_until);
    }
  }
  if (next) pause_timer_.arm(*next);
  for (const PeerHandle handle : due) {
    Peer* const peer = find(handle);
    if (peer == nullptr) continue;
    if (auto started = start(*peer); !started) end(*peer, started.error());
    if (closed_) return;
  }
}

void Bus::Hub::resolve(Peer& peer) {
  peer.stage = Stage::resolving;
  if (!resolver_) resolver_ = std::make_unique<NameResolver>(loop_);
  const auto answered = [this, handle = peer.handle](const Result<SocketAddress>& found) {
    const auto self = shared_from_this();
    Peer* const resolved = find(handle);
    if (resolved == nullptr) return;
    if (found) {
      if (auto begun = begin(*resolved, *found); !begun) end(*resolved, begun.error());
      return;
    }
    lengthen_pause(*resolved);
    pause(*resolved);
    if (callbacks_.on_unreached) callbacks_.on_unreached(handle, ProbeOutcome::silent);
  };
  if (resolver_->resolve(*peer.address, answered)) return;
  lengthen_pause(peer);
  pause(peer);
}

Result<void> Bus::Hub::begin(Peer& peer, const SocketAddress& numeric) {
  const std::string endpoint = BusSockets::endpoint_of(numeric);
  const auto [at, fresh] = endpoints_.emplace(endpoint, peer.handle);
  if (at->second != peer.handle) {
    return failure(ErrorCode::already_exists,
                   fmt::format("connect the bus to {}: it has a connection to {}",
                               peer.address->text(), endpoint));
  }
  peer.endpoint = endpoint;
  if (!options_.keys && !numeric.loopback()) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("connect the bus to {}: without keys it stays on this machine", endpoint));
  }
  // The routing id of this one connection in the ROUTER.
  peer.route = fmt::format("connection {}", peer.handle.value);
  if (auto begun = sockets_->connect(numeric, peer.origin->public_key, peer.route); !begun) {
    return begun;
  }
  peer.numeric = numeric;
  peer.stage = Stage::connecting;
  connected_routes_[peer.route] = peer.handle;
  // The first message proves the key to the other side.
  zmq::message_t empty;
  (void)try_send(peer, empty);
  touch();
  return {};
}

void Bus::Hub::disconnect(PeerHandle handle) {
  Peer* const peer = find(handle);
  if (peer == nullptr) return;
  if (!peer->origin->accepted) {
    // Later events of libzmq for this connection must not be attributed to the next connection.
    lengthen_pause(*peer);
    forget(*peer);
    return;
  }
  peer->cut = true;
  drop_incomplete(*peer);
  peer->outbox.clear();
  peer->outbox_bytes = 0;
  blocked_.erase(handle);
}

void Bus::Hub::apply_events() {
  while (!events_.empty() && !closed_) {
    const PendingEvent next = std::move(events_.front());
    events_.pop_front();
    if (next.of_bound) {
      on_bound_event(next.event);
    } else {
      on_connecting_event(next.event);
    }
  }
}

void Bus::Hub::on_bound_event(const ZmqEvent& event) {
  if (event.event == ZMQ_EVENT_DISCONNECTED) suspect_all_of(static_cast<int>(event.value));
}

void Bus::Hub::suspect_all_of(int fd) {
  const auto [first, last] = accepted_of_fd_.equal_range(fd);
  for (auto at = first; at != last; ++at) {
    Peer& peer = peers_.at(at->second);
    if (peer.suspect) continue;
    peer.suspect = true;
    peer.doubted_since = monotonic_now();
    doubted_.insert(peer.handle);
    touch();
  }
}

void Bus::Hub::on_connecting_event(const ZmqEvent& event) {
  const auto at = endpoints_.find(event.endpoint);
  Peer* const peer = at == endpoints_.end() ? nullptr : find(at->second);
  if (peer == nullptr || (peer->stage != Stage::connecting && peer->stage != Stage::up)) return;
  const auto lose = [&](ErrorCode code, std::string_view why) {
    if (peer->lost) return;
    peer->lost = failure(code, fmt::format("the connection to {}: {}", peer->endpoint, why));
    peer->doubted_since = monotonic_now();
    doubted_.insert(peer->handle);
  };
  switch (event.event) {
    case ZMQ_EVENT_CONNECTED:
      if (peer->lost) return end(*peer, *peer->lost);
      peer->fd = static_cast<int>(event.value);
      connected_of_fd_[peer->fd] = peer->handle;
      return;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      if (!peer->lost && peer->stage != Stage::up) set_up(*peer);
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return lose(ErrorCode::permission_denied, "the other side does not admit this one's key");
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return lose(ErrorCode::unavailable, "the handshake broke: no bus there, or another key");
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return lose(ErrorCode::unavailable, "closed in the handshake: no bus there, or another key");
    case ZMQ_EVENT_DISCONNECTED:
      return lose(ErrorCode::unavailable, "closed by the other side, or silent for too long");
    case ZMQ_EVENT_CONNECT_DELAYED:
    case ZMQ_EVENT_CONNECT_RETRIED:
      if (peer->lost) return end(*peer, *peer->lost);
      if (event.event == ZMQ_EVENT_CONNECT_RETRIED) probe(*peer);
      return;
    default: return;
  }
}

void Bus::Hub::set_up(Peer& peer) {
  peer.stage = Stage::up;
  peer.probe.reset();
  peer.last_tick = tick_;
  arm_heartbeats();
  if (callbacks_.on_connected) callbacks_.on_connected(peer.handle);
}

// libzmq does not report why an attempt failed.
void Bus::Hub::probe(Peer& peer) {
  if (peer.probe || !callbacks_.on_unreached) return;
  const auto seen = [this, handle = peer.handle](ProbeOutcome outcome) {
    const auto self = shared_from_this();
    if (Peer* const probed = find(handle)) probed->probe.reset();
    if (outcome != ProbeOutcome::open) callbacks_.on_unreached(handle, outcome);
  };
  peer.probe = std::make_unique<PortProbe>(loop_, *peer.numeric, probe_timeout, seen);
}

// The caller has read all input.
void Bus::Hub::judge_doubted() {
  const std::vector<PeerHandle> doubted(doubted_.begin(), doubted_.end());
  for (const PeerHandle handle : doubted) {
    Peer* const peer = find(handle);
    if (peer == nullptr) continue;
    if (!seems_gone(*peer)) continue;
    end(*peer, peer->lost ? *peer->lost
                          : failure(ErrorCode::unavailable, "the peer's connection has ended"));
    if (closed_) return;
  }
  if (!doubted_.empty()) judge_timer_.arm(monotonic_now() + judge_interval);
}

bool Bus::Hub::seems_gone(Peer& peer) {
  const Duration doubted = monotonic_now() - peer.doubted_since;
  if (!peer.origin->accepted) return doubted > longest_loss;
  if (peer.unroutable) return true;
  if (peer.next_trial > monotonic_now()) return false;
  peer.next_trial = monotonic_now() + judge_interval;
  zmq::message_t empty;
  if (try_send(peer, empty) == Sent::unroutable) {
    peer.unroutable = true;  // ends after one more read
  } else if (doubted > longest_suspicion) {
    peer.suspect = false;
    doubted_.erase(peer.handle);
  }
  return false;
}

void Bus::Hub::lengthen_pause(const Peer& peer) {
  const Time now = monotonic_now();
  if (pauses_.size() >= max_idle_pauses) {
    std::erase_if(pauses_, [&](const auto& each) {
      return each.second.until + options_.reconnect_longest < now;
    });
  }
  Pause& pause = pauses_[peer.endpoint];
  const bool calm = pause.until + options_.reconnect_longest < now;
  pause.length =
      calm ? options_.reconnect_first : std::min(2 * pause.length, options_.reconnect_longest);
  pause.until = now + pause.length;
}

void Bus::Hub::end(Peer& peer, const Failure& why) {
  const PeerHandle handle = peer.handle;
  const Failure reason = why;
  const bool notifies = !peer.cut && (peer.announced || !peer.origin->accepted);
  if (!peer.origin->accepted) lengthen_pause(peer);
  forget(peer);
  if (notifies && callbacks_.on_gone) callbacks_.on_gone(handle, reason);
}

void Bus::Hub::forget(Peer& peer) {
  const PeerHandle handle = peer.handle;
  drop_incomplete(peer);
  if (peer.origin->accepted) {
    const auto route = bound_routes_.find(peer.route);
    if (route != bound_routes_.end() && route->second == handle) bound_routes_.erase(route);
    const auto [first, last] = accepted_of_fd_.equal_range(peer.fd);
    const auto at =
        std::find_if(first, last, [&](const auto& each) { return each.second == handle; });
    if (at != last) accepted_of_fd_.erase(at);
  } else {
    connected_routes_.erase(peer.route);
    const auto of_fd = connected_of_fd_.find(peer.fd);
    if (of_fd != connected_of_fd_.end() && of_fd->second == handle) connected_of_fd_.erase(of_fd);
    const auto endpoint = endpoints_.find(peer.endpoint);
    if (endpoint != endpoints_.end() && endpoint->second == handle) {
      endpoints_.erase(endpoint);
      if (peer.stage == Stage::connecting || peer.stage == Stage::up) {
        sockets_->disconnect(*peer.numeric);
        touch();
      }
    }
  }
  blocked_.erase(handle);
  doubted_.erase(handle);
  peers_.erase(handle);
}

}  // namespace mobula::internal
