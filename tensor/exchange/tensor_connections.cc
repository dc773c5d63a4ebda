#include "tensor/exchange/tensor_connections.h"

#include <utility>
#include <vector>

#include "protocol/codec/messages.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t max_why = 256;  // bytes of a peer's reason that are passed on

// True for messages that a receiver sends. The direction tells which of two connections carries a
// message.
bool is_of_receiver(const RegionMessage& message) {
  if (const auto* step = std::get_if<TwoSidedStep>(&message)) return step->from_receiver;
  return std::holds_alternative<PullTensorRequest>(message) ||
         std::holds_alternative<PullTensorComplete>(message) ||
         std::holds_alternative<PullTensorCancelled>(message) ||
         std::holds_alternative<ReplicaEvicted>(message) ||
         std::holds_alternative<CloseConnectionRequest>(message);
}

}  // namespace

TensorConnections::TensorConnections(ProcessSockets& sockets, LinkOptions options,
                                     TransportCapabilities reach, Callbacks callbacks)
    : sockets_(sockets),
      options_(std::move(options)),
      reach_(std::move(reach)),
      callbacks_(std::move(callbacks)),
      later_(sockets.loop()),
      timer_(sockets.loop(), [this] { check_connections(); }) {
  ticket_clock_.received(options_.ticket, wall_clock_ms(), monotonic_now());
}

TensorConnections::~TensorConnections() { sockets_.close(); }

Result<std::unique_ptr<TensorConnections>> TensorConnections::open(ProcessSockets& sockets,
                                                                   LinkOptions options,
                                                                   TransportCapabilities reach,
                                                                   Callbacks callbacks) {
  std::unique_ptr<TensorConnections> self(
      new TensorConnections(sockets, std::move(options), std::move(reach), std::move(callbacks)));
  if (auto listening = self->listen(); !listening) return listening.error();
  return self;
}

Result<void> TensorConnections::listen() {
  options_.self.address = sockets_.endpoint().address;
  options_.self.public_key = sockets_.endpoint().public_key;
  options_.self.local = options_.socket;
  reach_.self = options_.self;
  BusCallbacks callbacks;
  callbacks.on_message = [this](PeerHandle from, const PeerOrigin& origin,
                                std::span<const std::byte> bytes) {
    bus_received(from, origin, bytes);
  };
  callbacks.on_gone = [this](PeerHandle peer, const Failure& why) {
    if (const auto at = by_handle_.find(peer); at != by_handle_.end()) ended(at->second, why);
  };
  callbacks.on_unreached = [this](PeerHandle peer, ProbeOutcome seen) {
    const auto at = by_handle_.find(peer);
    if (seen != ProbeOutcome::refused || at == by_handle_.end()) return;
    ended(at->second, failure(ErrorCode::not_found, "no process listens there any more"));
  };
  sockets_.serve(std::move(callbacks));
  if (options_.socket.empty()) return {};
  auto listener = LocalListener::open(sockets_.loop(), options_.socket,
                                      [this](Fd socket) { accept(std::move(socket)); });
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  return {};
}

// ---- connections --------------------------------------------------------------------------------

LocalLink::Callbacks TensorConnections::callbacks_of(LinkId id) {
  LocalLink::Callbacks callbacks;
  callbacks.on_frame = [this, id](LocalFrame frame) {
    on_frame(id, frame.bytes, PeerOrigin{.local = true});
  };
  callbacks.on_closed = [this, id](const Failure& why) { ended(id, why); };
  return callbacks;
}

void TensorConnections::accept(Fd socket) {
  if (links_.size() >= options_.max_links) return;
  const LinkId id = ++last_;
  auto local = LocalLink::open(sockets_.loop(), std::move(socket), callbacks_of(id));
  if (!local) return;
  Link& link = links_[id];
  link.accepted = true;
  link.since = monotonic_now();
  link.local = std::move(*local);
  check_connections();
}

void TensorConnections::meet(const Endpoint& holder, bool by_hearsay) {
  Peer& peer = peers_[holder.process];
  if (peer.out != 0) return;
  const LinkId id = peer.out = ++last_;
  Link& link = links_[id];
  link.peer = holder.process;
  link.by_hearsay = by_hearsay;
  link.public_key = holder.public_key;
  link.since = monotonic_now();
  if (auto connected = connect(id, link, holder); !connected) {
    // Deferred: the caller does not expect a callback during the call.
    // A full queue of the listener is reported as timed_out.
    const bool may_return = connected.error().code == ErrorCode::timed_out;
    later_.call([this, id,
                 why = failure(may_return ? ErrorCode::timed_out : ErrorCode::not_found,
                               connected.error().text)] { ended(id, why); });
    return;
  }
  say(link, PeerHello{own_protocol.newest, options_.self.process, options_.ticket});
  say(link, reach_);
  check_connections();
}

Result<void> TensorConnections::connect(LinkId id, Link& link, const Endpoint& holder) {
  if (!holder.local.empty() && holder.node == options_.self.node) {
    auto socket = connect_local(holder.local);
    // the directory of the socket may be removed
    if (!socket && !holder.address.empty()) return connect_remote(id, link, holder);
    if (!socket) return socket.error();
    auto local = LocalLink::open(sockets_.loop(), std::move(*socket), callbacks_of(id));
    if (!local) return local.error();
    link.local = std::move(*local);
    return {};
  }
  return connect_remote(id, link, holder);
}

Result<void> TensorConnections::connect_remote(LinkId id, Link& link, const Endpoint& holder) {
  if (holder.address.empty()) {
    return failure(ErrorCode::unavailable,
                   "the process that has it cannot be reached from other machines");
  }
  const auto bus = sockets_.bus();
  if (!bus) return bus.error();
  auto handle = (*bus)->connect(holder.address, holder.public_key);
  if (!handle) return handle.error();
  link.bus = *handle;
  by_handle_[*handle] = id;
  return {};
}

// Closes connections whose peer has not authenticated or not replied in time.
void TensorConnections::check_connections() {
  const Time now = monotonic_now();
  std::vector<LinkId> late;
  std::optional<Time> next;
  for (const auto& [id, link] : links_) {
    if (link.met && !link.refused && !link.parted) continue;
    const Time due = link.since + options_.greeting_timeout;
    if (due <= now) late.push_back(id);
    if (due > now && (!next || due < *next)) next = due;
  }
  for (const LinkId id : late) ended(id, failure(ErrorCode::timed_out, "the peer does not reply"));
  if (next) timer_.arm(*next);
}

// ---- messages -----------------------------------------------------------------------------------

void TensorConnections::bus_received(PeerHandle from, const PeerOrigin& origin,
                                     std::span<const std::byte> bytes) {
  const auto at = by_handle_.find(from);
  if (at != by_handle_.end()) return on_frame(at->second, bytes, origin);
  if (!origin.accepted || links_.size() >= options_.max_links) return;
  const LinkId id = ++last_;
  Link& link = links_[id];
  link.accepted = true;
  link.since = monotonic_now();
  link.bus = from;
  by_handle_[from] = id;
  check_connections();
  on_frame(id, bytes, origin);
}

void TensorConnections::on_frame(LinkId id, std::span<const std::byte> bytes,
                                 const PeerOrigin& origin) {
  const auto at = links_.find(id);
  if (at == links_.end()) return;
  Link& link = at->second;
  if (link.refused || link.parted) return;
  auto message = decode<RegionLinkMessage>(bytes);
  if (!message) return ended(id, message.error());
  if (const auto* hello = std::get_if<PeerHello>(&*message)) {
    if (!greeted(id, link, *hello, origin)) refuse(id, link);
    return;
  }
  if (const auto* refused = std::get_if<ConnectionRejected>(&*message)) {
    if (link.accepted)
      return ended(
          id, failure(ErrorCode::corrupt, "the peer rejects a connection that it has requested"));
    return ended(id, failure(ErrorCode::permission_denied,
                             "the peer rejects this process: " + refused->why.substr(0, max_why)));
  }
  if (link.peer.empty())
    return ended(id, failure(ErrorCode::corrupt, "the peer sends messages before its identity"));
  const ProcessId peer = link.peer;
  if (const auto* reach = std::get_if<TransportCapabilities>(&*message)) {
    // Over a network, the key of the connection authenticates the accepting side.
    if (has_to_prove(link) && !link.proven) {
      return ended(id,
                   failure(ErrorCode::permission_denied,
                           "the process that accepted the connection has not proved its identity"));
    }
    link.met = true;
    if (link.accepted) {
      say(link, PeerHello{own_protocol.newest, options_.self.process, options_.ticket});
      say(link, reach_);
    }
    return callbacks_.met(peer, *reach);
  }
  const RegionMessage& word = std::get<TensorFrame>(*message).message;
  // Each connection carries one direction: a holder's messages arrive on the connection that its
  // receiver opened.
  if (!link.met || is_of_receiver(word) != link.accepted) {
    return ended(id, failure(ErrorCode::corrupt,
                             "the peer sends a message that is not valid from its side"));
  }
  callbacks_.on_message(peer, word);
}

// A ticket authenticates the peer; over a network it must name the key of the connection.
std::optional<Ticket> TensorConnections::admitted(const PeerHello& hello,
                                                  const PeerOrigin& origin) const {
  if (!speaks_with(hello.version, hello.oldest)) return std::nullopt;
  auto ticket =
      check_ticket(hello.ticket, options_.head_signing_key,
                   ticket_clock_.now_ms(wall_clock_ms(), monotonic_now()), options_.revoked_keys);
  if (!ticket || ticket->process != hello.process || ticket->principal.job != options_.job)
    return std::nullopt;
  if (!origin.local && ticket->curve_key != origin.public_key) return std::nullopt;
  const Role role = ticket->principal.role;
  if (role != Role::driver && role != Role::executor) return std::nullopt;
  return std::move(*ticket);
}

bool TensorConnections::greeted(LinkId id, Link& link, const PeerHello& hello,
                                const PeerOrigin& origin) {
  if (!link.accepted) {
    // The peer must be the process that was addressed.
    if (!has_to_prove(link)) return true;
    const auto shown =
        admitted(hello, link.local ? origin : PeerOrigin{.public_key = link.public_key});
    link.proven = hello.process == link.peer && shown.has_value();
    if (link.proven) link.admitted_as = shown->admitted_as;
    return link.proven;
  }
  const auto shown = link.peer.empty() ? admitted(hello, origin) : std::nullopt;
  if (!shown) return false;
  link.admitted_as = shown->admitted_as;
  if (const auto known = peers_.find(hello.process);
      known != peers_.end() && known->second.in != 0) {
    drop(hello.process, failure(ErrorCode::unavailable, "the peer has connected again"));
  }
  link.proven = true;
  link.peer = hello.process;
  peers_[hello.process].in = id;
  // The bus closes connections that its owner does not confirm in time.
  if (!link.bus) return true;  // a unix socket
  if (const auto bus = sockets_.bus()) (*bus)->trust(link.bus);
  return true;
}

// Delays the close until the message is sent.
void TensorConnections::refuse(LinkId id, Link& link) {
  if (!link.accepted)
    return ended(id, failure(ErrorCode::permission_denied,
                             "another process than the expected one replies there"));
  if (!link.peer.empty())
    return ended(id, failure(ErrorCode::corrupt, "the peer sends its identity twice"));
  say(link, ConnectionRejected{
                "it does not admit it: both have to be of one job, with tickets that hold"});
  link.refused = true;
  link.since = monotonic_now();
  check_connections();
}

void TensorConnections::send(ProcessId to, const RegionMessage& message) {
  const auto peer = peers_.find(to);
  if (peer == peers_.end()) return;
  const auto link = links_.find(is_of_receiver(message) ? peer->second.out : peer->second.in);
  if (link != links_.end()) {
    say(link->second, TensorFrame{message});
    if (!std::holds_alternative<CloseConnectionReply>(message)) return;
    // The receiver closes the connection.
    link->second.parted = true;
    link->second.since = monotonic_now();
    peer->second.in = 0;
    check_connections();
    return leave_if_alone(to);
  }
  later_.call([this, to, of_receiver = is_of_receiver(message)] {
    const auto at = peers_.find(to);
    // A new connection may exist by now.
    if (at == peers_.end() || (of_receiver ? at->second.out : at->second.in) != 0) return;
    drop(to, failure(ErrorCode::unavailable, "no connection to the peer exists any more"));
  });
}

// Ends the connection if a message cannot be sent, because the stream must have no gaps.
void TensorConnections::say(Link& link, const RegionLinkMessage& message) {
  const Bytes bytes = encode(message);
  Result<void> sent = failure(ErrorCode::unavailable, "the connection is closed");
  if (link.local) {
    sent = link.local->send(bytes);
  } else if (const auto bus = sockets_.bus()) {
    sent = (*bus)->send(link.bus, bytes);
  }
  if (sent.ok()) return;
  const auto at =
      std::ranges::find_if(links_, [&](const auto& each) { return &each.second == &link; });
  if (at == links_.end()) return;
  later_.call([this, id = at->first, why = sent.error()] { ended(id, why); });
}

// ---- close --------------------------------------------------------------------------------------

void TensorConnections::ended(LinkId id, const Failure& why) {
  const auto at = links_.find(id);
  if (at == links_.end()) return;
  if (const ProcessId peer = at->second.peer; !peer.empty() && !at->second.parted)
    return drop(peer, why);
  forget(id);
}

void TensorConnections::announce(const TransportCapabilities& reach) {
  reach_ = reach;
  reach_.self = options_.self;
  for (auto& [id, link] : links_) {
    if (link.accepted && link.met && !link.refused && !link.parted) say(link, reach_);
  }
}

void TensorConnections::part(ProcessId holder) {
  const auto at = peers_.find(holder);
  if (at == peers_.end()) return;
  forget(std::exchange(at->second.out, 0));
  leave_if_alone(holder);
}

void TensorConnections::leave_if_alone(ProcessId peer) {
  const auto at = peers_.find(peer);
  if (at == peers_.end() || at->second.out != 0 || at->second.in != 0) return;
  peers_.erase(at);
  callbacks_.parted(peer);
}

void TensorConnections::dead(ProcessId peer) {
  if (peers_.contains(peer)) drop(peer, failure(ErrorCode::not_found, "the process has exited"));
}

void TensorConnections::trust(const std::string& ticket,
                              const std::vector<std::string>& revoked_keys) {
  options_.ticket = ticket;
  ticket_clock_.received(ticket, wall_clock_ms(), monotonic_now());
  options_.revoked_keys.add(revoked_keys);
  std::vector<ProcessId> cut;
  for (const auto& [id, link] : links_) {
    if (!link.peer.empty() && options_.revoked_keys.contains(link.admitted_as))
      cut.push_back(link.peer);
  }
  for (const ProcessId peer : cut) {
    if (peers_.contains(peer))
      drop(peer, failure(ErrorCode::permission_denied, "the key of the peer was revoked"));
  }
}

void TensorConnections::drop(ProcessId peer, const Failure& why) {
  const auto at = peers_.find(peer);
  if (at == peers_.end()) return;
  const Peer both = at->second;
  peers_.erase(at);
  forget(both.out);
  forget(both.in);
  const bool may_return = why.code == ErrorCode::unavailable || why.code == ErrorCode::timed_out ||
                          why.code == ErrorCode::resource_exhausted;
  callbacks_.gone(peer, why, may_return);
}

void TensorConnections::forget(LinkId id) {
  const auto at = links_.find(id);
  if (at == links_.end()) return;
  const Link link = std::move(at->second);
  links_.erase(at);
  if (!link.bus) return;
  by_handle_.erase(link.bus);
  if (const auto bus = sockets_.bus()) (*bus)->disconnect(link.bus);
}

}  // namespace mobula::internal::exchange
