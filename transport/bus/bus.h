// ZeroMQ bus of one process: sends and receives messages of opaque bytes. A bound ROUTER accepts
// connections and a second ROUTER makes them. A PeerHandle is one connection, never a process. It
// ends with the connection, and unsent messages are dropped.
// Thread: the event loop. Errors: see each function. Not: retries, which the session does.
// Security: CURVE encrypts TCP if the bus has keys. A bus without keys stays on this machine. Unix
// sockets are not encrypted, because their mode excludes other users.
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
#include "transport/bus/connection_guard.h"
#include "transport/bus/curve.h"
#include "transport/bus/zap.h"
#include "transport/loop/event_loop.h"
#include "transport/net/early_listener.h"
#include "transport/net/port_probe.h"

namespace mobula::internal {

struct PeerHandle {
  std::uint64_t value = 0;
  friend auto operator<=>(const PeerHandle&, const PeerHandle&) = default;
  explicit operator bool() const { return value != 0; }
};

// The identity of the other end of a connection, as proven by CURVE or by the unix socket.
struct PeerOrigin {
  bool accepted = false;     // the peer connected to this bus
  bool local = false;        // unix socket of this user; the other fields are empty
  std::string user_id{};     // user id from the AllowTable for an accepted peer; empty without keys
  std::string public_key{};  // key of the peer, proven by CURVE; empty without keys
};

struct BusCallbacks {
  // Delivers a message, never an empty one. `bytes` and `origin` are valid during the call. The bus
  // knows an accepted connection only after its first message.
  std::function<void(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes)>
      on_message;
  // The handshake of a connection from connect() has succeeded.
  std::function<void(PeerHandle peer)> on_connected = nullptr;
  // The connection has ended and its handle is invalid. All messages that arrived on it were
  // delivered before. `why` is permission_denied if the peer rejected the key of this bus,
  // otherwise unavailable. Not called after disconnect().
  std::function<void(PeerHandle peer, const Failure& why)> on_gone = nullptr;
  // An attempt to connect failed, and the bus retries. `refused` proves that no process listens at
  // the address; `silent` proves nothing.
  std::function<void(PeerHandle peer, ProbeOutcome seen)> on_unreached = nullptr;
  // The bus closed a connection to enforce its limits. `source` is an address without a port.
  std::function<void(const std::string& source, const std::string& why)> on_closed = nullptr;
};

struct BusOptions {
  std::optional<CurveKeys> keys;  // without keys: no encryption, only loopback and unix sockets
  AllowTable* allow = nullptr;    // required with keys; outlives the bus
  std::size_t max_message_bytes = 16u << 20;
  // Size of the chunks of larger messages, the same in all processes. A TCP listener accepts frames
  // of 32 KiB only, so a chunk that is sent to it has several frames.
  std::size_t chunk_bytes = 1u << 20;
  std::size_t max_open_bytes = 256u << 20;  // in incomplete messages of all peers
  // Messages per peer inside libzmq, and bytes per outbox. send() fails if both are full.
  int send_high_water = 256;
  std::size_t max_outbox_bytes = 64u << 20;
  ConnectionLimits connections;
  Duration handshake_timeout = 5s;  // also that of an accepted peer until its key is proven
  Duration heartbeat_interval = 2s;
  Duration heartbeat_timeout = 10s;  // silence after which a connection is ended
  Duration reconnect_first = 100ms;
  Duration reconnect_longest = 2s;
  Duration connect_timeout = 5s;  // one attempt
  int io_threads = 1;
};

struct BusCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t malformed = 0;  // messages with a shape that no bus sends; dropped
  std::uint64_t ignored = 0;    // messages of disconnected peers or ended connections
  std::uint64_t closed = 0;     // connections closed by the limits
  std::size_t open_bytes = 0;   // memory of incomplete messages now
};

// A peer cannot choose its handle: the receiver assigns routing ids, and PeerOrigin alone decides
// the rights of a connection. libzmq cannot close a connection that it accepted, so disconnect()
// makes the bus ignore such a peer. The bus itself closes connections that exceed ConnectionLimits
// or do not authenticate. It ends connections without heartbeats, which are empty messages.
// Messages of one peer arrive in the order of send(), also those in chunks (decision 86).
class Bus {
 public:
  // Creates a bus. Callbacks run on the loop only and may destroy the bus. Errors: unavailable if
  // keys are given and libzmq lacks CURVE, invalid_argument if keys are given without a table.
  static Result<std::unique_ptr<Bus>> create(EventLoop& loop, BusOptions options,
                                             BusCallbacks callbacks);
  // Equals close(0s).
  ~Bus();
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  // Accepts connections at `address` and returns it with its real port. Several addresses are
  // allowed. May query name servers, so it is meant for startup. Errors: permission_denied for a
  // remote address without keys, already_exists if the address is in use, not_found if no interface
  // of this machine has it.
  Result<std::string> bind(const std::string& address);

  // Same as bind(), for a listening socket that may already have pending connections. The socket
  // file of a path remains after close().
  Result<void> adopt(ListeningSocket listening);

  // Starts a connection to the bus with `server_public_key` at `address`. The key is empty without
  // keys and is ignored for a unix socket. Retries until disconnect(), with a backoff from
  // reconnect_first to reconnect_longest. Messages may be sent immediately. Errors: already_exists
  // if a connection to the same address exists.
  Result<PeerHandle> connect(const std::string& address, const std::string& server_public_key);
  // Marks an accepted peer as authenticated by the owner, if the AllowTable does not know its key.
  // Until then, the bus accepts only a few bytes from it.
  void trust(PeerHandle peer);
  // Ends a connection without a callback and drops its unsent messages.
  void disconnect(PeerHandle peer);

  // Queues a message and never blocks. Success means only that the message is queued. Errors:
  // not_found if the connection ended, invalid_argument for an empty or oversized message,
  // resource_exhausted if the outbox is full.
  Result<void> send(PeerHandle peer, std::span<const std::byte> bytes);

  // Bytes in the outbox of the peer, excluding those inside libzmq; 0 after the connection ended.
  std::size_t outbox_bytes(PeerHandle peer) const;
  const BusCounters& counters() const;

  // Ends all connections. Blocks up to `linger` while libzmq sends its queued messages. No callback
  // runs afterwards, and bind() and connect() fail with unavailable.
  void close(Duration linger);

 private:
  class Hub;
  explicit Bus(std::shared_ptr<Hub> hub);
  // Shared with the call in progress, so that a callback may destroy the bus.
  std::shared_ptr<Hub> hub_;
};

}  // namespace mobula::internal
