// Serves bytes to other processes over TCP. A client presents a token and sends a small request. It
// receives a small header and then the body, which is sent without a copy.
// Thread: the event loop. AES-256-GCM takes about 1 ms of it per MiB at worst, so a process with a
// busy loop gives the server a separate LoopThread.
// Not: the meaning of requests. Plain bytes, if the token has no key, are for trusted fabrics only.
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
#include "transport/bulk/bulk_wire.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

// Rights of a token.
struct BulkAccess {
  std::optional<SealKey> key;  // none: plain
  std::string principal;       // passed to on_request
};

// One request of one client, until its reply.
struct BulkExchange {
  std::uint64_t connection = 0;
  std::uint64_t number = 0;  // chosen by the client
  friend auto operator<=>(const BulkExchange&, const BulkExchange&) = default;
};

// Bytes of a reply. They must stay valid until `release` is called: once, from the loop, after they
// were sent or cancelled, or after the connection ended.
struct BulkBody {
  std::span<const std::byte> bytes;
  std::function<void()> release = nullptr;
};

struct BulkServerCallbacks {
  // Returns the rights of a token, or nullopt: the server then closes the connection without a
  // reply.
  std::function<std::optional<BulkAccess>(const BulkToken&)> access;
  // The owner replies with reply() or refuse(), now or later. On an encrypted connection, the
  // client has proven that it has the key.
  std::function<void(BulkExchange, const std::string& principal,
                     std::span<const std::byte> request)>
      on_request;
  // The client of a pending exchange cancelled it or disconnected.
  std::function<void(BulkExchange)> on_cancelled = nullptr;
  // Moves a new connection to another server, which adopts it. Returns true if it took the
  // descriptor and left `Fd` empty.
  std::function<bool(Fd&)> hand_over = nullptr;
  // A connection was closed; `why` is meant for logs.
  std::function<void(const std::string& peer, const Failure& why)> on_closed = nullptr;
};

struct BulkServerOptions {
  // At most a quarter of the process's descriptors. Above it a new connection replaces the oldest
  // one without a request; if no such connection exists, the new one is closed.
  std::size_t max_connections = 1'024;
  std::size_t max_exchanges = 256;  // pending or unsent per connection; an excess closes it
  Duration hello_timeout = 5s;      // from accept to the first verified request
  Duration silence_timeout = 15s;   // without progress while a reply is unsent
  Duration idle_timeout = 120s;     // without any exchange
};

struct BulkServerCounters {
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;  // over max_connections, or with an unknown token
  std::uint64_t broken = 0;    // invalid format or seal
  std::uint64_t bytes_sent = 0;
};

class BulkServer {
 public:
  // Callbacks come from the loop, never from within calls of the server, and may destroy the
  // server. Exception: the release of a body whose exchange has ended.
  BulkServer(EventLoop& loop, BulkServerCallbacks callbacks, BulkServerOptions options = {});
  // Closes all connections and releases all bodies.
  ~BulkServer();
  BulkServer(const BulkServer&) = delete;
  BulkServer& operator=(const BulkServer&) = delete;

  // Listens at V4:PORT, [V6]:PORT, or NAME:PORT and returns the address with its real port. May
  // query name servers, so it is meant for startup. Errors: already_exists if the address is in
  // use.
  Result<std::string> listen(const std::string& address);

  // Serves a connection that another server accepted. Must not be called from within a callback.
  void adopt(Fd socket);

  // Replies to an exchange. Errors: not_found if the exchange has ended, invalid_argument for a
  // header above bulk_message_bytes. The body is also released on an error.
  Result<void> reply(BulkExchange exchange, std::span<const std::byte> header, BulkBody body);
  // Replies with a failure, which ends the fetch of the client.
  Result<void> refuse(BulkExchange exchange, const Failure& why);

  std::size_t connections() const;
  const BulkServerCounters& counters() const;

 private:
  class Impl;
  // Shared with the call in progress, so that a callback may destroy the server.
  std::shared_ptr<Impl> impl_;
};

}  // namespace mobula::internal
