#include "worker/transfers/bulk_lane.h"

#include <utility>

namespace mobula::internal::worker {
namespace {

constexpr Duration tell_again = 10ms;
constexpr Duration idle_check_interval = 30s;
constexpr Duration idle_peer_life = 60s;
constexpr std::size_t request_bytes = 24;

// The core detects a stalled peer and requests the chunks from another one. Later requests to the
// same peer must not wait behind bytes that it has not sent.
BulkClientOptions client_options() {
  BulkClientOptions options;
  options.silence_timeout = 5s;
  return options;
}

}  // namespace

BulkLane::BulkLane(EventLoop& loop, std::shared_ptr<BulkOffers> offers, DeliverEvents deliver,
                   std::function<bool(Fd&)> hand_over)
    : loop_(loop),
      offers_(std::move(offers)),
      deliver_(std::move(deliver)),
      again_(loop, [this] { flush(); }),
      idle_(loop, [this] { forget_idle(); }),
      server_(loop, callbacks(std::move(hand_over))) {}

// ---- serving ------------------------------------------------------------------------------------

BulkServerCallbacks BulkLane::callbacks(std::function<bool(Fd&)> hand_over) {
  BulkServerCallbacks callbacks;
  callbacks.access = [offers = offers_](const BulkToken& token) { return offers->access(token); };
  callbacks.on_request = [this](BulkExchange exchange, const std::string& principal,
                                std::span<const std::byte> request) {
    serve(exchange, principal, request);
  };
  callbacks.hand_over = std::move(hand_over);
  return callbacks;
}

void BulkLane::serve(BulkExchange exchange, const std::string& principal,
                     std::span<const std::byte> request) {
  if (request.size() != request_bytes) {
    (void)server_.refuse(
        exchange, failure(ErrorCode::invalid_argument, "a request of this version has 24 bytes"));
    return;
  }
  const std::uint64_t offer = *take_number(request);
  const std::uint64_t offset = *take_number(request);
  const std::uint64_t size = *take_number(request);
  auto source = offers_->begin(principal, offer, offset, size);
  if (!source) {
    (void)server_.refuse(exchange, source.error());
    return;
  }
  BulkBody body;
  body.bytes = source->bytes;
  body.release = [this, offer, keeps = source->keeps] {
    if (offers_->end(offer)) tell(BulkServed{offer});
  };
  (void)server_.reply(exchange, {}, std::move(body));
}

void BulkLane::withdraw(std::uint64_t offer) {
  if (offers_->withdraw(offer)) tell(BulkServed{offer});
}

// ---- reading ------------------------------------------------------------------------------------

void BulkLane::fetch(BulkChunk part) {
  const std::uint64_t chunk = part.chunk;
  const PeerKey key{part.from.address, part.from.token};
  Peer& peer = peers_[key];
  peer.last_used = monotonic_now();
  if (!peer.client) peer.client = std::make_unique<BulkClient>(loop_, part.from, client_options());
  if (!idle_.armed()) idle_.arm(peer.last_used + idle_check_interval);
  BulkFetch fetch;
  put_number(fetch.request, part.offer);
  put_number(fetch.request, part.offset);
  put_number(fetch.request, part.space.bytes.size());
  const auto bytes = part.space.bytes;
  fetch.on_header = [bytes](std::span<const std::byte>,
                            std::uint64_t length) -> Result<std::span<std::byte>> {
    if (length == bytes.size()) return bytes;
    return failure(ErrorCode::corrupt, "the peer offers " + std::to_string(length) +
                                           " bytes, asked for were " +
                                           std::to_string(bytes.size()));
  };
  fetch.on_done = [this, chunk](const Result<void>& outcome) { ended(chunk, outcome); };
  const auto begun = peer.client->fetch(std::move(fetch));
  if (!begun) return tell(ChunkFetched{chunk, begun.error()});
  flights_[chunk] = {std::move(part.space), key, *begun};
}

// After the call of the client, or a call of its `cancel`, nothing is written to the memory.
void BulkLane::ended(std::uint64_t chunk, const Result<void>& outcome) {
  if (flights_.erase(chunk) == 0) return;
  ChunkFetched fetched{chunk, std::nullopt};
  if (!outcome) fetched.failure = outcome.error();
  tell(std::move(fetched));
}

void BulkLane::cancel(std::uint64_t chunk) {
  const auto at = flights_.find(chunk);
  if (at == flights_.end()) return;
  peers_.at(at->second.peer).client->cancel(at->second.fetch);
  ended(chunk, failure(ErrorCode::cancelled, "no pull waits for the chunk any more"));
}

void BulkLane::forget_idle() {
  const Time now = monotonic_now();
  std::erase_if(peers_, [&](const auto& each) {
    return each.second.client->fetches() == 0 && now - each.second.last_used > idle_peer_life;
  });
  if (!peers_.empty()) idle_.arm(now + idle_check_interval);
}

void BulkLane::tell(Event event) {
  undelivered_.push_back(std::move(event));
  flush();
}

void BulkLane::flush() {
  if (!undelivered_.empty() && !deliver_(undelivered_)) again_.arm(monotonic_now() + tell_again);
}

}  // namespace mobula::internal::worker
