// Fetches bytes from one BulkServer straight into the caller's memory. The connection is made when
// it is needed and closed when idle. Non-blocking, for the thread of its loop alone; opening sealed
// bytes takes time of it, so a process with a busy loop gives the client a LoopThread of its own.
// It does not retry: a failed fetch is the caller's to repeat.
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
#include "transport/bulk_wire.h"
#include "transport/event_loop.h"

namespace mobula::internal {

// Whom to ask, and with which right.
struct BulkTarget {
  std::string address;
  BulkToken token{};
  std::optional<SealKey> key;  // none: plain; must agree with the server's
};

struct BulkFetch {
  std::vector<std::byte> request;  // at most bulk_message_bytes
  // Returns the room for the body, exactly `length` bytes that stay until the end of the fetch, or
  // a failure to end it with. Until success is told, what lies in the room may be anything.
  std::function<Result<std::span<std::byte>>(std::span<const std::byte> header,
                                             std::uint64_t length)>
      on_header;
  // Called once, from the loop: success, or the server's refusal, on_header's failure, unavailable
  // (no connection, or it broke), timed_out, corrupt.
  std::function<void(Result<void>)> on_done;
};

struct BulkFetchId {
  std::uint64_t value = 0;
  friend auto operator<=>(const BulkFetchId&, const BulkFetchId&) = default;
};

struct BulkClientOptions {
  std::size_t max_fetches = 256;  // at most the server's max_exchanges
  Duration connect_limit = 5s;    // from the first need to the server's hello
  Duration silence_limit = 30s;   // without a byte while something is being fetched
  Duration idle_limit = 30s;      // less than the server's
};

class BulkClient {
 public:
  BulkClient(EventLoop& loop, BulkTarget target, BulkClientOptions options = {});
  // Ends all fetches without a call.
  ~BulkClient();
  BulkClient(const BulkClient&) = delete;
  BulkClient& operator=(const BulkClient&) = delete;

  // Begins a fetch. They are served in order over one connection. resource_exhausted when
  // max_fetches are under way, invalid_argument for a request that is too long.
  Result<BulkFetchId> fetch(BulkFetch fetch);
  // Ends a fetch without a call; when this returns its room is not touched any more. The server
  // stops sending after the chunk in progress.
  void cancel(BulkFetchId id);

  std::size_t fetches() const;
  // Bytes that have arrived over all its connections.
  std::uint64_t received() const;

 private:
  class Impl;
  // Shared with the call in progress, so that a callback may destroy the client.
  std::shared_ptr<Impl> impl_;
};

}  // namespace mobula::internal
