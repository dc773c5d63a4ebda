// Serves bytes to other processes over TCP: a client presents a token, asks with a small request
// and gets a small header and then the body, read from where it lies. Sealed with AES-256-GCM
// unless the token's key says plain, which is for trusted fabrics only. Non-blocking, for the
// thread of its loop alone; sealing takes about 1 ms of it per MiB at worst, so a process with a
// busy loop gives the server a LoopThread of its own. It does not know what requests mean.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "transport/bulk_wire.h"
#include "transport/event_loop.h"

namespace mobula::internal {

// What a token gives a right to.
struct BulkAccess {
  std::optional<SealKey> key;  // none: plain
  std::string principal;       // told with each request
};

// One request of one client, until it is answered.
struct BulkExchange {
  std::uint64_t connection = 0;
  std::uint64_t number = 0;  // the client's
  friend auto operator<=>(const BulkExchange&, const BulkExchange&) = default;
};

// The bytes of an answer. They stay where they are until `release` is called, once, from the loop:
// sent, cancelled, or the connection gone.
struct BulkBody {
  std::span<const std::byte> bytes;
  std::function<void()> release = nullptr;
};

struct BulkServerCallbacks {
  // The right of a token, or nothing: the connection is then closed without a word.
  std::function<std::optional<BulkAccess>(const BulkToken&)> access;
  // Answer with reply() or refuse(), now or later. On sealed connections the client has proved that
  // it has the key.
  std::function<void(BulkExchange, const std::string& principal,
                     std::span<const std::byte> request)>
      on_request;
  // Nobody waits for the answer of an unanswered exchange any more.
  std::function<void(BulkExchange)> on_cancelled = nullptr;
  // Takes a new connection to another server, which adopts it: what was given is empty then, and
  // the answer true.
  std::function<bool(Fd&)> hand_over = nullptr;
  // A connection was closed, and why; for logs.
  std::function<void(const std::string& peer, const Failure& why)> on_closed = nullptr;
};

struct BulkServerOptions {
  // At most a quarter of the process's descriptors. Beyond it a new connection replaces the oldest one
  // without a request; if there is no such connection, the new one is closed.
  std::size_t max_connections = 1'024;
  std::size_t max_exchanges = 256;      // unanswered or unsent per connection; more close it
  Duration hello_limit = 5s;            // from accept to the first request that opens
  Duration silence_limit = 15s;         // without progress while something is to be sent
  Duration idle_limit = 120s;           // without anything to do
};

struct BulkServerCounters {
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;  // over max_connections, or with an unknown token
  std::uint64_t broken = 0;    // closed for breaking the format or a seal
  std::uint64_t bytes_sent = 0;
};

class BulkServer {
 public:
  // Callbacks come from the loop, never from within calls of the server, except releases of bodies
  // whose exchange has ended; they may destroy the server.
  BulkServer(EventLoop& loop, BulkServerCallbacks callbacks, BulkServerOptions options = {});
  // Closes all connections and releases all bodies.
  ~BulkServer();
  BulkServer(const BulkServer&) = delete;
  BulkServer& operator=(const BulkServer&) = delete;

  // Listens at V4:PORT, [V6]:PORT or NAME:PORT and returns the address with its real port.
  // already_exists when it is in use. May ask name servers: for a start.
  Result<std::string> listen(const std::string& address);

  // Serves a connection that another server has accepted; not from within a callback.
  void adopt(Fd socket);

  // Answers an exchange. not_found when nobody waits for it any more, invalid_argument for a header
  // over bulk_message_bytes; the body is released then, too.
  Result<void> reply(BulkExchange exchange, std::span<const std::byte> header, BulkBody body);
  // Answers with a failure, which the client's fetch ends with.
  Result<void> refuse(BulkExchange exchange, const Failure& why);

  std::size_t connections() const;
  const BulkServerCounters& counters() const;

 private:
  class Impl;
  // Shared with the call in progress, so that a callback may destroy the server.
  std::shared_ptr<Impl> impl_;
};

}  // namespace mobula::internal
