#include "transport/bus/bus.h"

#include <fmt/format.h>

#include <cerrno>
#include <vector>

#include "transport/bus/bus_hub.h"

namespace mobula::internal {
namespace {

// Limit of messages per call. The loop continues the read after it has served its other sources.
constexpr int max_messages_at_once = 2'000;
// Reported ends wait until all input is read, but at most this time if input arrives faster than it
// is read.
constexpr Duration longest_event_wait = 1s;
// Size of a routing id that a ROUTER assigns: a zero byte and a number.
constexpr std::size_t own_route_size = 5;
// Message property with the user id from the ZAP server.
constexpr const char* user_id_property = "User-Id";

}  // namespace

Bus::Hub::Hub(EventLoop& loop, BusOptions options, BusCallbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      judge_timer_(loop,
                   [this] {
                     poll_all_ = true;
                     pump();
                   }),
      pause_timer_(loop, [this] { start_due(); }),
      limits_timer_(loop, [this] { check_limits(); }),
      heartbeat_timer_(loop, [this] { send_heartbeats(); }),
      guard_(limits_of(options_), options_.keys.has_value(),
             {[this](int fd) { return read_bytes(fd); },
              [this](const std::string& source, const std::string& why) {
                ++counters_.closed;
                if (callbacks_.on_closed) callbacks_.on_closed(source, why);
              }}),
      assembler_(chunk_limits_of(options_)) {}

Result<void> Bus::Hub::open() {
  auto sockets = BusSockets::create(options_);
  if (!sockets) return sockets.error();
  sockets_ = std::move(sockets).value();
  const auto watch = [&](int fd, bool& due) -> Result<void> {
    auto made = loop_.watch(fd, Interest::read, [this, &due](Readiness) {
      due = true;
      pump();
    });
    if (!made) return made.error();
    watches_.push_back(std::move(made).value());
    return {};
  };
  if (auto on = watch(option_of(sockets_->bound().router, zmq::sockopt::fd), poll_bound_); !on)
    return on;
  if (auto on = watch(option_of(sockets_->connecting().router, zmq::sockopt::fd), poll_connecting_);
      !on)
    return on;
  if (auto on = watch(option_of(sockets_->bound().monitor, zmq::sockopt::fd), poll_all_); !on)
    return on;
  if (auto on = watch(option_of(sockets_->connecting().monitor, zmq::sockopt::fd), poll_all_); !on)
    return on;
  touch();
  return {};
}

void Bus::Hub::close(Duration linger) {
  if (closed_) return;
  flush_blocked();
  closed_ = true;
  judge_timer_.disarm();
  pause_timer_.disarm();
  limits_timer_.disarm();
  heartbeat_timer_.disarm();
  watches_.clear();
  resolver_.reset();
  peers_.clear();
  if (!sockets_) return;
  sockets_->set_linger(linger);
  sockets_.reset();
}

Result<std::string> Bus::Hub::bind(const std::string& address) {
  if (closed_) return failure(ErrorCode::unavailable, "bind the bus: it is closed");
  touch();
  return sockets_->bind(address);
}

Result<void> Bus::Hub::adopt(ListeningSocket listening) {
  if (closed_)
    return failure(ErrorCode::unavailable, "take over a listening socket: the bus is closed");
  touch();
  return sockets_->adopt(std::move(listening));
}

// Any call on a libzmq socket may consume the edge of its edge-triggered descriptor, so all sockets
// are polled again.
void Bus::Hub::touch() {
  poll_all_ = true;
  if (!watches_.empty()) watches_.front().mark_ready();
}

// Same after a call on one socket only.
void Bus::Hub::touch(bool bound) {
  if (!watches_.empty()) watches_[bound ? 0 : 1].mark_ready();
}

// Events are collected before input is read and applied after it, so that the messages of a peer
// are delivered before its end is reported. Without pending events, only sockets with input are
// polled: a poll costs two system calls.
void Bus::Hub::pump() {
  const auto self = shared_from_this();
  if (std::exchange(poll_all_, false) || !events_.empty() || !doubted_.empty()) {
    poll_bound_ = poll_connecting_ = true;
    collect_events();
  }
  const bool bound_read = !std::exchange(poll_bound_, false) || drain(sockets_->bound(), true);
  if (closed_) return;
  const bool connecting_read =
      !std::exchange(poll_connecting_, false) || drain(sockets_->connecting(), false);
  if (closed_) return;
  flush_blocked();
  all_read_ = all_read_ && bound_read && connecting_read;
  arm_limits();
  if (!bound_read) touch(true);
  if (!connecting_read) touch(false);
  const bool overdue = !events_.empty() && monotonic_now() - events_since_ > longest_event_wait;
  if (!(bound_read && connecting_read) && !overdue) return;
  apply_events();
  if (!closed_) judge_doubted();
}

void Bus::Hub::collect_events() {
  if (events_.empty()) events_since_ = monotonic_now();
  for (const bool bound : {true, false}) {
    zmq::socket_t& monitor = bound ? sockets_->bound().monitor : sockets_->connecting().monitor;
    while (auto event = receive_event(monitor)) {
      note_opened(*event, bound);
      if (event->event == ZMQ_EVENT_ACCEPTED) continue;
      events_.push_back({bound, *std::move(event)});
    }
  }
}

// Returns true if all available input was read.
bool Bus::Hub::drain(BusSocket& socket, bool bound) {
  for (int i = 0; i < max_messages_at_once; ++i) {
    zmq::message_t route;
    if (!receive(socket.router, route)) return true;
    bool whole = route.more() && receive_frames(socket.router);
    std::optional<ChunkHeader> header;
    if (whole && frames_.size() > 1) {
      if (auto read = ChunkHeader::decode(bytes_of(frames_.front()))) {
        header = *read;
        frames_.erase(frames_.begin());
      } else {
        whole = false;
      }
    }
    if (!whole || frames_.front().size() > options_.max_message_bytes) {
      ++counters_.malformed;
    } else {
      deliver(route, bound, header);
      if (closed_) return false;
    }
    frames_.clear();
  }
  return false;
}

// Receives the frames of a message after its route. Returns false if it has more frames than a
// chunk may have.
bool Bus::Hub::receive_frames(zmq::socket_t& router) {
  const std::size_t most = 2 + options_.chunk_bytes / ChunkLimits::frame_bytes;
  frames_.clear();
  bool more = true;
  bool fits = true;
  while (more) {
    if (frames_.size() > most) fits = false;
    if (!fits) frames_.pop_back();
    if (!receive(router, frames_.emplace_back())) return false;
    more = frames_.back().more();
  }
  return fits;
}

void Bus::Hub::deliver(zmq::message_t& route, bool bound,
                       const std::optional<ChunkHeader>& header) {
  zmq::message_t& body = frames_.front();
  const auto& routes = bound ? bound_routes_ : connected_routes_;
  const int fd = source_fd_of(body);
  const auto at = routes.find(route.to_string());
  Peer* peer = at == routes.end() ? nullptr : find(at->second);
  if (bound) {
    if (route.size() != own_route_size || route.to_string_view().front() != '\0') {
      ++counters_.malformed;  // the peer chose its own routing id
      return;
    }
    // A routing id is reused only after its first connection ended and its input was read
    // completely. The next connection may have the same descriptor, but not the key of another
    // peer.
    if (peer != nullptr &&
        (peer->fd != fd ||
         peer->origin->public_key != property_of(body, ZapServer::public_key_property))) {
      end(*peer, failure(ErrorCode::unavailable, "the peer's connection has ended"));
      if (closed_) return;
      peer = nullptr;
    }
    if (peer == nullptr) peer = admit(route.to_string_view(), body, fd);
  } else if (peer != nullptr && peer->fd < 0) {
    peer->fd = fd;
    connected_of_fd_[fd] = peer->handle;
  }
  // Another descriptor of a connected peer belongs to the next attempt of libzmq, not to this
  // handle.
  if (peer == nullptr || peer->cut || peer->fd != fd) {
    ++counters_.ignored;
    return;
  }
  const PeerHandle handle = peer->handle;
  const auto origin = peer->origin;
  if (!bound && peer->stage != Stage::up) set_up(*peer);
  peer = closed_ ? nullptr : find(handle);
  if (peer == nullptr) return;
  if (!read_some(*peer)) return;
  if (header) return take_chunk(handle, *header);
  if (body.size() == 0) return;  // a heartbeat, or a probe of the route
  if (peer->assembling) {
    return reject(handle, failure(ErrorCode::corrupt,
                                  "receive from the bus: a message begins inside another message"));
  }
  peer->announced = true;
  ++counters_.received;
  if (callbacks_.on_message) callbacks_.on_message(handle, *origin, bytes_of(body));
}

Bus::Hub::Peer* Bus::Hub::admit(std::string_view route, zmq::message_t& body, int fd) {
  // The kernel reuses a descriptor only after it was closed.
  suspect_all_of(fd);
  const PeerHandle handle{next_handle_++};
  Peer& peer = peers_[handle];
  peer.handle = handle;
  // With keys, every message over TCP is authenticated by CURVE.
  const std::string key(property_of(body, ZapServer::public_key_property));
  peer.origin = std::make_shared<const PeerOrigin>(PeerOrigin{
      true, options_.keys && key.empty(), std::string(property_of(body, user_id_property)), key});
  peer.route = route;
  peer.fd = fd;
  peer.stage = Stage::up;
  bound_routes_[peer.route] = handle;
  accepted_of_fd_.emplace(fd, handle);
  peer.last_tick = tick_;
  if (options_.keys && peer.origin->user_id != unproven_user) guard_.proven(fd);
  arm_heartbeats();
  return &peer;
}

Result<void> Bus::Hub::send(PeerHandle handle, std::span<const std::byte> bytes) {
  Peer* const peer = find(handle);
  if (peer == nullptr || peer->cut) {
    return failure(ErrorCode::not_found, "send on the bus: the peer is disconnected");
  }
  if (bytes.empty() || bytes.size() > options_.max_message_bytes) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("send on the bus: a message has 1 to {} bytes, this one {}",
                               options_.max_message_bytes, bytes.size()));
  }
  const bool has_route = peer->stage == Stage::connecting || peer->stage == Stage::up;
  if (bytes.size() > frame_limit(*peer)) return send_large(*peer, bytes);
  zmq::message_t message(bytes.data(), bytes.size());
  if (!has_route || !peer->outbox.empty()) return queue(*peer, std::move(message));
  switch (try_send(*peer, message)) {
    case Sent::yes: return {};
    case Sent::full: return queue(*peer, std::move(message));
    case Sent::unroutable: break;
  }
  return failure(ErrorCode::not_found, "send on the bus: the peer's connection has ended");
}

Result<void> Bus::Hub::queue(Peer& peer, zmq::message_t body) {
  if (peer.outbox_bytes + body.size() > options_.max_outbox_bytes) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("send on the bus: {} bytes in {} messages wait for the peer, which "
                               "reads slowly; the limit is {}",
                               peer.outbox_bytes, peer.outbox.size(), options_.max_outbox_bytes));
  }
  peer.outbox_bytes += body.size();
  peer.outbox.push_back({std::make_shared<zmq::message_t>(std::move(body))});
  blocked_.insert(peer.handle);
  return {};
}

Bus::Hub::Sent Bus::Hub::try_send(Peer& peer, zmq::message_t& body) {
  const bool bound = peer.origin->accepted;
  touch(bound);
  zmq::socket_t& router = bound ? sockets_->bound().router : sockets_->connecting().router;
  if (!mobula::internal::send(router, peer.route, ZMQ_SNDMORE)) {
    return zmq_errno() == EAGAIN ? Sent::full : Sent::unroutable;
  }
  // After the route frame is accepted, the pipe accepts the whole message.
  if (body.size() > 0) ++counters_.sent;
  if (!mobula::internal::send(router, body)) return Sent::unroutable;
  return Sent::yes;
}

// Any command from the threads of libzmq may mean that a pipe has space again.
void Bus::Hub::flush_blocked() {
  for (auto at = blocked_.begin(); at != blocked_.end();) {
    Peer& peer = peers_.at(*at);
    const bool has_route = peer.stage == Stage::connecting || peer.stage == Stage::up;
    if (has_route) (void)flush(peer);
    at = peer.outbox.empty() ? blocked_.erase(at) : std::next(at);
  }
}

Bus::Hub::Sent Bus::Hub::flush(Peer& peer) {
  Sent sent = Sent::yes;
  while (sent == Sent::yes && !peer.outbox.empty()) {
    Outgoing& front = peer.outbox.front();
    const std::size_t size = front.body->size();
    if (size > frame_limit(peer)) {
      sent = send_chunks(peer, front);
    } else if (sent = try_send(peer, *front.body); sent == Sent::yes) {
      peer.outbox_bytes -= size;
    }
    if (sent == Sent::yes) peer.outbox.pop_front();
  }
  if (sent == Sent::unroutable) {  // the end event of the connection follows
    peer.outbox.clear();
    peer.outbox_bytes = 0;
  }
  return sent;
}

std::size_t Bus::Hub::outbox_bytes(PeerHandle handle) const {
  const auto at = peers_.find(handle);
  return at == peers_.end() ? 0 : at->second.outbox_bytes;
}

Bus::Bus(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}

Bus::~Bus() { hub_->close(0s); }

Result<std::unique_ptr<Bus>> Bus::create(EventLoop& loop, BusOptions options,
                                         BusCallbacks callbacks) {
  auto hub = std::make_shared<Hub>(loop, std::move(options), std::move(callbacks));
  std::unique_ptr<Bus> bus(new Bus(hub));
  if (auto opened = hub->open(); !opened) return opened.error();
  return bus;
}

Result<std::string> Bus::bind(const std::string& address) { return hub_->bind(address); }
Result<void> Bus::adopt(ListeningSocket listening) { return hub_->adopt(std::move(listening)); }
Result<PeerHandle> Bus::connect(const std::string& address, const std::string& server_public_key) {
  return hub_->connect(address, server_public_key);
}
void Bus::trust(PeerHandle peer) { hub_->trust(peer); }
void Bus::disconnect(PeerHandle peer) { hub_->disconnect(peer); }
Result<void> Bus::send(PeerHandle peer, std::span<const std::byte> bytes) {
  return hub_->send(peer, bytes);
}
std::size_t Bus::outbox_bytes(PeerHandle peer) const { return hub_->outbox_bytes(peer); }
const BusCounters& Bus::counters() const { return hub_->counters(); }
void Bus::close(Duration linger) { hub_->close(linger); }

}  // namespace mobula::internal
