// The ZeroMQ bus of one process: messages of opaque bytes to and from other processes. One bound
// ROUTER takes connections, one connecting ROUTER makes them. TCP connections are encrypted by CURVE
// unless the bus has no keys, and then it stays on this machine; unix sockets are never encrypted,
// for their mode keeps other users out. For the thread of its loop alone.
//
// A PeerHandle is one connection, never one process: it ends with the connection, and what was not
// sent by then is dropped, so nothing meant for one incarnation reaches the next. Repeating is the
// session's work. A peer chooses nothing about its handle: routing ids are the receiver's, and what
// a connection may do follows from its PeerOrigin.
//
// libzmq cannot close a connection it accepted: disconnect() of such a peer makes the bus deaf to
// it. The bus itself closes connections that send too much before it reads, or prove no key; and it
// ends those whose peer stopped sending heartbeats, which are empty messages.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "transport/connection_guard.h"
#include "transport/curve.h"
#include "transport/early_listener.h"
#include "transport/event_loop.h"
#include "transport/port_probe.h"
#include "transport/zap.h"

namespace mobula::internal {

struct PeerHandle {
  std::uint64_t value = 0;
  friend auto operator<=>(const PeerHandle&, const PeerHandle&) = default;
  explicit operator bool() const { return value != 0; }
};

// What is proven about the other end of a connection.
struct PeerOrigin {
  bool accepted = false;   // the peer connected to this bus
  bool local = false;      // by a unix socket, so a process of this user; the rest is empty then
  std::string user_id{};    // of accepted ones: what the AllowTable says; empty without keys
  std::string public_key{}; // the peer's, proven by CURVE; empty without keys
};

struct BusCallbacks {
  // A message, never empty. `bytes` and `origin` are valid during the call. Of an accepted
  // connection the bus knows from its first message on.
  std::function<void(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes)>
      on_message;
  // A connection that connect() began is through its handshake.
  std::function<void(PeerHandle peer)> on_connected = nullptr;
  // The connection has ended, and every message that arrived over it was delivered before; the
  // handle is void. permission_denied when the peer refuses this bus's key, else unavailable. Not
  // called after disconnect().
  std::function<void(PeerHandle peer, const Failure& why)> on_gone = nullptr;
  // An attempt to connect failed, and another one follows by itself: `refused` proves that nobody
  // listens there, `silent` proves nothing.
  std::function<void(PeerHandle peer, ProbeOutcome seen)> on_unreached = nullptr;
  // The bus has closed a connection from `source`, an address without a port, to keep its limits.
  std::function<void(const std::string& source, const std::string& why)> on_closed = nullptr;
};

struct BusOptions {
  std::optional<CurveKeys> keys;  // without them: no encryption, loopback and local sockets alone
  AllowTable* allow = nullptr;    // needed with keys; outlives the bus
  std::size_t max_message_bytes = 16u << 20;
  // Messages of one peer within libzmq, and bytes that wait before it. send() fails beyond.
  int send_high_water = 256;
  std::size_t max_outbox_bytes = 64u << 20;
  ConnectionLimits connections;
  Duration handshake_limit = 5s;  // also that of an accepted peer until its key is proven
  Duration heartbeat_interval = 2s;
  Duration heartbeat_limit = 10s;  // a connection without a message for this time is ended
  Duration reconnect_first = 100ms;
  Duration reconnect_longest = 2s;
  Duration connect_limit = 5s;  // one attempt
  int io_threads = 1;
};

struct BusCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t malformed = 0;  // of a shape that no bus sends; dropped
  std::uint64_t ignored = 0;    // of peers that disconnect() has cut, or of ended connections
  std::uint64_t closed = 0;     // connections that were beyond their limits
};

class Bus {
 public:
  // Fails with unavailable when libzmq lacks CURVE and keys are given, with invalid_argument for
  // keys without a table. Callbacks come from the loop alone and may destroy the bus.
  static Result<std::unique_ptr<Bus>> create(EventLoop& loop, BusOptions options,
                                             BusCallbacks callbacks);
  // As close(0s).
  ~Bus();
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  // Takes connections at `address` and returns it with its real port. May be called for several
  // addresses. permission_denied beyond this machine without keys; already_exists when the address
  // is in use; not_found when it is not one of this machine. May ask name servers: for a start.
  Result<std::string> bind(const std::string& address);

  // The same of a place where processes may have connected already. The file of a path stays when the
  // bus is closed.
  Result<void> adopt(ListeningSocket listening);

  // Begins a connection to the bus with `server_public_key` (empty without keys, and not used for a
  // unix socket) at `address`, and keeps trying with growing pauses until disconnect(). Messages may be sent at once. An address
  // whose connections break is tried again after a pause that grows from reconnect_first to
  // reconnect_longest. already_exists while there is a connection to the same address.
  Result<PeerHandle> connect(const std::string& address, const std::string& server_public_key);
  // The owner has checked the identity of an accepted peer whose key the AllowTable does not know;
  // until then few bytes are taken from it.
  void trust(PeerHandle peer);
  // Ends a connection, without a callback; what it has not sent is dropped.
  void disconnect(PeerHandle peer);

  // Queues a message; never blocks. not_found for a peer that is gone, invalid_argument for an
  // empty or too large message, resource_exhausted when the peer's outbox is full. Success means no
  // more than queued.
  Result<void> send(PeerHandle peer, std::span<const std::byte> bytes);

  // Bytes that wait in the peer's outbox, without those within libzmq; 0 for a peer that is gone.
  std::size_t outbox_bytes(PeerHandle peer) const;
  const BusCounters& counters() const;

  // Ends all connections; blocks up to `linger` for messages that libzmq has to send. No callback
  // comes afterwards; bind() and connect() then fail with unavailable.
  void close(Duration linger);

 private:
  class Hub;
  explicit Bus(std::shared_ptr<Hub> hub);
  // Shared with the call in progress, so that a callback may destroy the bus.
  std::shared_ptr<Hub> hub_;
};

}  // namespace mobula::internal
