// The connections of one process to others with which it exchanges tensors. Within a node they are unix
// sockets, else they go by the process's sockets for other machines. Both sides show a ticket, then say what
// they can do; who is refused is told so. Who receives connects: over one connection go the transfers of one direction
// alone, so two that connect to each other at once do not meet. When a connection to or from a process
// ends, so does the other: nothing that was said before is heard after `gone`. One that idles is closed with a word on
// both sides, which is no such end. For its loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <memory>
#include <span>
#include <string>

#include "base/id.h"
#include "base/result.h"
#include "model/principal.h"
#include "protocol/region_messages.h"
#include "protocol/ticket.h"
#include "protocol/ticket_clock.h"
#include "transport/direct/later.h"
#include "transport/local_link.h"
#include "transport/local_listener.h"
#include "transport/process_sockets.h"

namespace mobula::internal::exchange {

struct LinkOptions {
  Endpoint self;          // its process and node; the rest is filled in
  JobId job;              // peers are of the same
  std::string ticket;     // shown to peers
  VoidKeys void_keys = {};     // theirs are of none of these
  std::string head_signing_key;  // theirs are signed with
  std::string socket;     // where processes of this node connect; empty: nowhere
  std::size_t max_links = 4096;
  Duration greeting_within = 10s;
};

class RegionLinks {
 public:
  struct Callbacks {
    // What the peer can do: before anything else of it is heard, and again over each connection.
    std::function<void(ProcessId, const RegionReach&)> met;
    std::function<void(ProcessId, const RegionMessage&)> heard;
    // After met(), or instead of it.
    std::function<void(ProcessId, const Failure&)> gone;
    // No connection to it is left, and nothing has ended: it is met again when something is wanted.
    std::function<void(ProcessId)> parted;
  };

  // `sockets` has its places for other machines open; its bus is this one's alone.
  static Result<std::unique_ptr<RegionLinks>> open(ProcessSockets& sockets, LinkOptions options, RegionReach reach,
                                                   Callbacks callbacks);
  ~RegionLinks();
  RegionLinks(const RegionLinks&) = delete;
  RegionLinks& operator=(const RegionLinks&) = delete;

  // Where peers reach this process.
  const Endpoint& self() const { return options_.self; }
  // met() or gone() follows, or has been told and holds still. `by_hearsay`: another process of the job has said
  // that it is there, so it shows a ticket for the key that it is reached by.
  void meet(const Endpoint& holder, bool by_hearsay = false);
  void send(ProcessId to, const RegionMessage& message);
  // Sends a changed reach of this process to its receivers, before the next message to them.
  void announce(const RegionReach& reach);
  // Its last word has come (RegionsParted): the connection by which this process receives from it is closed.
  void part(ProcessId holder);
  // It will never speak again.
  void dead(ProcessId peer);
  // Shows this ticket from now on; `void_keys`, further ones, let nobody in, and who is there by them is gone.
  void trust(const std::string& ticket, const std::vector<std::string>& void_keys);

 private:
  using LinkId = std::uint64_t;
  struct Link {
    ProcessId peer;     // accepted: empty until its ticket was checked
    bool accepted = false;
    bool met = false;
    bool proven = false;  // it has shown a ticket
    bool by_hearsay = false;
    std::string public_key{};  // by hearsay: that the ticket is to be for
    bool parted = false;  // its holder has said its last word: nothing is heard, and its end is none of the peer's
    bool refused = false; // and has been told: nothing of it is heard until it is let go
    Time since;
    std::string admitted_as{};  // of the ticket that it has shown
    std::unique_ptr<LocalLink> local;  // else:
    PeerHandle bus;
  };
  struct Peer {
    LinkId out = 0, in = 0;
  };

  RegionLinks(ProcessSockets& sockets, LinkOptions options, RegionReach reach, Callbacks callbacks);
  static bool has_to_prove(const Link& link) { return link.local || link.by_hearsay; }
  Result<void> listen();
  void accept(Fd socket);
  Result<void> connect(LinkId id, Link& link, const Endpoint& holder);
  Result<void> connect_far(LinkId id, Link& link, const Endpoint& holder);
  LocalLink::Callbacks callbacks_of(LinkId id);
  void bus_said(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void said(LinkId id, std::span<const std::byte> bytes, const PeerOrigin& origin);
  bool greeted(LinkId id, Link& link, const PeerHello& hello, const PeerOrigin& origin);
  // The ticket of a peer, if it is one that tensors may be exchanged with.
  std::optional<Ticket> admitted(const PeerHello& hello, const PeerOrigin& origin) const;
  void refuse(LinkId id, Link& link);
  void say(Link& link, const RegionLinkMessage& message);
  void ended(LinkId id, const Failure& why);
  void drop(ProcessId peer, const Failure& why);
  void forget(LinkId id);
  void leave_if_alone(ProcessId peer);
  void look();

  ProcessSockets& sockets_;
  LinkOptions options_;
  TicketClock ticket_clock_;
  RegionReach reach_;
  const Callbacks callbacks_;
  std::unique_ptr<LocalListener> listener_;
  std::map<LinkId, Link> links_;
  std::map<ProcessId, Peer> peers_;
  std::map<PeerHandle, LinkId> by_handle_;
  LinkId last_ = 0;
  Later later_;
  Timer timer_;  // of those that have not greeted
};

}  // namespace mobula::internal::exchange
