// Fetches bytes from one BulkServer directly into memory of the caller. Connects on demand and
// closes an idle connection.
// Thread: the event loop. Decryption takes time of this thread, so a process with a busy loop gives
// the client a separate LoopThread.
// Errors: see `on_done`. Not: retries, which the caller does.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/bulk/bulk_wire.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

// Address, token, and key of a server.
struct BulkTarget {
  std::string address;
  BulkToken token{};
  std::optional<SealKey> key;  // none: plain; must match the server
};

struct BulkFetch {
  std::vector<std::byte> request;  // at most bulk_message_bytes
  // Returns a buffer of exactly `length` bytes that stays valid until the fetch ends, or a failure
  // that ends the fetch. The content of the buffer is undefined until on_done reports success.
  std::function<Result<std::span<std::byte>>(std::span<const std::byte> header,
                                             std::uint64_t length)>
      on_header;
  // Called once, from the loop. Errors: the rejection by the server, the failure of on_header,
  // unavailable (no connection, or it broke), timed_out, corrupt.
  std::function<void(Result<void>)> on_done;
};

struct BulkFetchId {
  std::uint64_t value = 0;
  friend auto operator<=>(const BulkFetchId&, const BulkFetchId&) = default;
};

struct BulkClientOptions {
  std::size_t max_fetches = 256;   // at most max_exchanges of the server
  Duration connect_timeout = 5s;   // from the first fetch to the hello of the server
  Duration silence_timeout = 30s;  // without a byte during a fetch
  Duration idle_timeout = 30s;     // less than the idle limit of the server
};

class BulkClient {
 public:
  BulkClient(EventLoop& loop, BulkTarget target, BulkClientOptions options = {});
  // Ends all fetches without a callback.
  ~BulkClient();
  BulkClient(const BulkClient&) = delete;
  BulkClient& operator=(const BulkClient&) = delete;

  // Starts a fetch. One connection serves the fetches in order. Errors: resource_exhausted if
  // max_fetches are in progress, invalid_argument for an oversized request.
  Result<BulkFetchId> fetch(BulkFetch fetch);
  // Ends a fetch without a callback. After the return, its buffer is not written. The server stops
  // sending after the current chunk.
  void cancel(BulkFetchId id);

  std::size_t fetches() const;
  // Bytes received over all connections since construction.
  std::uint64_t received() const;

 private:
  class Impl;
  // Shared with the call in progress, so that a callback may destroy the client.
  std::shared_ptr<Impl> impl_;
};

}  // namespace mobula::internal
