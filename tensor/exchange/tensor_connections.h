// Connections to the peers with which this process exchanges tensors: unix sockets within a node,
// process sockets between nodes. The receiver of a tensor connects to its holder, so a connection
// carries the requests of one direction. A broken connection also closes the one in the other
// direction; an idle connection is closed by agreement and does not count as broken.
// Thread: the loop thread of the sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "base/result.h"
#include "protocol/messages/tensor_messages.h"
#include "protocol/tickets/ticket.h"
#include "protocol/tickets/ticket_clock.h"
#include "transport/bus/process_sockets.h"
#include "transport/local/local_link.h"
#include "transport/local/local_listener.h"
#include "transport/tensor/deferred_calls.h"

namespace mobula::internal::exchange {

struct LinkOptions {
  Endpoint self;                     // process and node; the rest is filled in
  JobId job;                         // job that peers must have, too
  std::string ticket;                // shown to peers
  RevocationList revoked_keys = {};  // revoked keys; their tickets are rejected
  std::string head_signing_key;      // verifies the tickets of peers
  std::string socket;                // listening path for processes of this node; empty: none
  std::size_t max_links = 4096;
  Duration greeting_timeout = 10s;
};

class TensorConnections {
 public:
  struct Callbacks {
    // The handshake with the peer is complete. Called for each connection, before `on_message`.
    std::function<void(ProcessId, const TransportCapabilities&)> met;
    std::function<void(ProcessId, const RegionMessage&)> on_message;
    // All connections to the peer have failed, or the handshake has. No earlier message of the peer
    // arrives afterwards. `may_return` is false if the process has exited or rejects this one.
    std::function<void(ProcessId, const Failure&, bool may_return)> gone;
    // The last connection to the peer was closed because it was idle. The next pull connects again.
    std::function<void(ProcessId)> parted;
  };

  // `sockets` must already listen for other machines; this object uses its bus exclusively.
  static Result<std::unique_ptr<TensorConnections>> open(ProcessSockets& sockets,
                                                         LinkOptions options,
                                                         TransportCapabilities reach,
                                                         Callbacks callbacks);
  ~TensorConnections();
  TensorConnections(const TensorConnections&) = delete;
  TensorConnections& operator=(const TensorConnections&) = delete;

  // Endpoint of this process.
  const Endpoint& self() const { return options_.self; }
  // Connects to the holder, unless a connection exists. `met` or `gone` is called later. If another
  // process of the job reported the endpoint (`by_hearsay`), the peer must show a ticket for the
  // key in the endpoint.
  void meet(const Endpoint& holder, bool by_hearsay = false);
  void send(ProcessId to, const RegionMessage& message);
  // Sends changed capabilities to all receivers, before the next message to each of them.
  void announce(const TransportCapabilities& reach);
  // Closes the connection to this holder, which has replied with `CloseConnectionReply`.
  void part(ProcessId holder);
  // The process has exited: closes its connections.
  void dead(ProcessId peer);
  // Replaces the ticket of this process and adds revoked keys; connections that used such a key are
  // closed.
  void trust(const std::string& ticket, const std::vector<std::string>& revoked_keys);

 private:
  using LinkId = std::uint64_t;
  struct Link {
    ProcessId peer;  // accepted connection: empty until the ticket is checked
    bool accepted = false;
    bool met = false;
    bool proven = false;  // has shown a valid ticket
    bool by_hearsay = false;
    std::string public_key{};  // set if `by_hearsay`: key that the ticket must name
    // closed by agreement: messages are ignored, and the end of the link does not affect the peer
    bool parted = false;
    bool refused = false;  // rejected and notified; its messages are ignored until the close
    Time since;
    std::string admitted_as{};         // `admitted_as` of its ticket
    std::unique_ptr<LocalLink> local;  // null: `bus` is used
    PeerHandle bus;
  };
  struct Peer {
    LinkId out = 0, in = 0;
  };

  TensorConnections(ProcessSockets& sockets, LinkOptions options, TransportCapabilities reach,
                    Callbacks callbacks);
  static bool has_to_prove(const Link& link) { return link.local || link.by_hearsay; }
  Result<void> listen();
  void accept(Fd socket);
  Result<void> connect(LinkId id, Link& link, const Endpoint& holder);
  Result<void> connect_remote(LinkId id, Link& link, const Endpoint& holder);
  LocalLink::Callbacks callbacks_of(LinkId id);
  void bus_received(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void on_frame(LinkId id, std::span<const std::byte> bytes, const PeerOrigin& origin);
  bool greeted(LinkId id, Link& link, const PeerHello& hello, const PeerOrigin& origin);
  // Returns the ticket of a peer if it admits that peer to the exchange of tensors.
  std::optional<Ticket> admitted(const PeerHello& hello, const PeerOrigin& origin) const;
  void refuse(LinkId id, Link& link);
  void say(Link& link, const RegionLinkMessage& message);
  void ended(LinkId id, const Failure& why);
  void drop(ProcessId peer, const Failure& why);
  void forget(LinkId id);
  void leave_if_alone(ProcessId peer);
  void check_connections();

  ProcessSockets& sockets_;
  LinkOptions options_;
  TicketClock ticket_clock_;
  TransportCapabilities reach_;
  const Callbacks callbacks_;
  std::unique_ptr<LocalListener> listener_;
  std::map<LinkId, Link> links_;
  std::map<ProcessId, Peer> peers_;
  std::map<PeerHandle, LinkId> by_handle_;
  LinkId last_ = 0;
  DeferredCalls later_;
  Timer timer_;  // handshake timeouts
};

}  // namespace mobula::internal::exchange
