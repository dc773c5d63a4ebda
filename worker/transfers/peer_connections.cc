#include "worker/transfers/peer_connections.h"

#include <utility>

#include "base/logging/log.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::worker {
namespace {

constexpr std::size_t max_hello_bytes = 4096;
constexpr Duration log_interval = 60s;

}  // namespace

Result<std::unique_ptr<PeerConnections>> PeerConnections::open(EventLoop& loop, ProcessId self,
                                                               const Signer& signer,
                                                               Callbacks callbacks) {
  auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  std::unique_ptr<PeerConnections> peers(
      new PeerConnections(self, signer, std::move(*keys), std::move(callbacks)));
  BusOptions options;
  options.keys = peers->keys_;
  options.allow = &peers->allow_;
  BusCallbacks bus;
  bus.on_message = [at = peers.get()](PeerHandle from, const PeerOrigin& origin,
                                      std::span<const std::byte> bytes) {
    at->on_frame(from, origin, bytes);
  };
  bus.on_connected = [at = peers.get()](PeerHandle peer) {
    const auto known = at->outgoing_of_.find(peer);
    if (known != at->outgoing_of_.end()) at->callbacks_.link(known->second, true);
  };
  bus.on_gone = [at = peers.get()](PeerHandle peer, const Failure&) { at->forget(peer); };
  // No process listens there. The next frame connects again; a dead peer gets no further frame.
  bus.on_unreached = [at = peers.get()](PeerHandle peer, ProbeOutcome) {
    at->bus_->disconnect(peer);
    at->forget(peer);
  };
  bus.on_closed = [at = peers.get()](const std::string& source, const std::string& why) {
    at->log_closed(source, why);
  };
  auto opened = Bus::create(loop, std::move(options), std::move(bus));
  if (!opened) return opened.error();
  peers->bus_ = std::move(*opened);
  return peers;
}

void PeerConnections::send(const AgentAddress& to, const PeerFrame& frame) {
  auto at = outgoing_.find(to.incarnation);
  if (at == outgoing_.end()) {
    const auto peer = bus_->connect(to.control, to.public_key);
    if (!peer) {
      log_debug("agent {} at {}: {}", to.incarnation.brief(), to.control, peer.error().text);
      return;
    }
    at = outgoing_.emplace(to.incarnation, *peer).first;
    outgoing_of_.emplace(*peer, to.incarnation);
    (void)bus_->send(*peer, encode(PeerHello{own_protocol.newest, self_, signer_.ticket()}));
  }
  (void)bus_->send(at->second, encode(frame));  // frames that a full peer rejects are resent
}

// One line per minute, because a peer could fill the disk with them.
void PeerConnections::log_closed(const std::string& source, const std::string& why) {
  ++closed_unlogged_;
  const Time now = monotonic_now();
  if (closed_logged_at_ && now - *closed_logged_at_ < log_interval) return;
  closed_logged_at_ = now;
  log_warn("peers: closed connection source={} reason='{}' since_last_line={}", source, why,
           std::exchange(closed_unlogged_, 0));
}

void PeerConnections::forget(PeerHandle peer) {
  proven_.erase(peer);
  const auto known = outgoing_of_.find(peer);
  if (known == outgoing_of_.end()) return;
  const ProcessId incarnation = known->second;
  outgoing_of_.erase(known);
  outgoing_.erase(incarnation);
  callbacks_.link(incarnation, false);
}

void PeerConnections::on_frame(PeerHandle from, const PeerOrigin& origin,
                               std::span<const std::byte> bytes) {
  if (!origin.accepted) return;  // replies arrive over connections that the peer opened
  const auto proven = proven_.find(from);
  if (proven == proven_.end()) return greeted(from, origin, bytes);
  auto frame = decode<PeerFrame>(bytes);
  if (!frame || frame->from != proven->second.incarnation) {
    log_debug("a frame of process {} was dropped: {}", proven->second.incarnation.brief(),
              frame ? "it names another sender" : frame.error().text);
    return;
  }
  callbacks_.on_message(std::move(*frame));
}

void PeerConnections::greeted(PeerHandle from, const PeerOrigin& origin,
                              std::span<const std::byte> bytes) {
  const auto refuse = [&](const std::string& why) {
    log_closed("key:" + origin.public_key, why);
    bus_->disconnect(from);
  };
  if (bytes.size() > max_hello_bytes) return refuse("its first message is too long");
  const auto hello = decode<PeerHello>(bytes);
  if (!hello) return refuse(hello.error().text);
  if (!speaks_with(hello->version, hello->oldest)) {
    return refuse(protocol_mismatch("it", range_of(hello->version, hello->oldest), "this agent"));
  }
  const auto ticket =
      check_ticket(hello->ticket, signer_.head_signing_key(), signer_.now_ms(), void_keys_);
  if (!ticket) return refuse(ticket.error().text);
  const Role role = ticket->principal.role;
  if (role != Role::agent && role != Role::driver_agent) return refuse("it is no agent");
  if (ticket->process != hello->process) return refuse("its ticket is of another process");
  if (ticket->curve_key != origin.public_key) return refuse("its ticket is of another key");
  bus_->trust(from);
  proven_.emplace(from, Proven{hello->process, ticket->admitted_as});
}

void PeerConnections::cut(const std::vector<std::string>& keys) {
  void_keys_.add(keys);
  std::erase_if(proven_, [this](const auto& each) {
    if (!void_keys_.contains(each.second.admitted_as)) return false;
    bus_->disconnect(each.first);
    return true;
  });
}

}  // namespace mobula::internal::worker
