#include "transport/direct/tcp_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

namespace mobula::internal {
namespace {

constexpr Duration lane_look_every = 50ms;
// Of one connection, asked for and not there.
constexpr std::size_t max_chunks_asked = 64;
constexpr std::uint64_t max_bytes_asked = 16u << 20;
constexpr std::size_t max_streams = 4'096;

}  // namespace

TcpLane::TcpLane(TcpOffers& offers, std::unique_ptr<LoopThread> thread)
    : offers_(offers),
      thread_(std::move(thread)),
      box_(std::make_shared<TaskBox>(thread_->loop())) {}

Result<std::unique_ptr<TcpLane>> TcpLane::start(TcpOffers& offers,
                                                std::function<bool(Fd&)> hand_over) {
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  std::unique_ptr<TcpLane> made(new TcpLane(offers, std::move(thread).value()));
  auto ran = made->thread_->run([&] { made->open(std::move(hand_over)); });
  if (!ran) return ran.error();
  return made;
}

void TcpLane::open(std::function<bool(Fd&)> hand_over) {
  look_timer_ = std::make_unique<Timer>(thread_->loop(), [this] { look(); });
  BulkServerCallbacks callbacks;
  callbacks.access = [this](const BulkToken& token) { return offers_.access(token); };
  callbacks.on_request = [this](BulkExchange exchange, const std::string& principal,
                                std::span<const std::byte> request) {
    auto body = offers_.read(principal, request);
    (void)(body ? server_->reply(exchange, {}, std::move(body).value())
                : server_->refuse(exchange, body.error()));
  };
  callbacks.hand_over = std::move(hand_over);
  // Who stops reading holds the source: not for long.
  server_ = std::make_unique<BulkServer>(thread_->loop(), std::move(callbacks),
                                         BulkServerOptions{.silence_limit = 5s});
}

TcpLane::~TcpLane() {
  // The mailbox is emptied by the lane itself: it is full for a moment at most.
  while (!thread_->run([this] { close(); })) std::this_thread::yield();
}

void TcpLane::close() {
  box_->close();
  look_timer_.reset();
  rows_.clear();
  streams_.clear();
  server_.reset();
}

Result<std::string> TcpLane::listen(const std::string& address) {
  Result<std::string> bound(failure(ErrorCode::unavailable, "not listening"));
  auto ran = thread_->run([&] { bound = server_->listen(address); });
  if (!ran) return ran.error();
  return bound;
}

void TcpLane::adopt(Fd socket) {
  // Shared: what is posted is copied.
  const auto taken = std::make_shared<Fd>(std::move(socket));
  box_->push([this, taken] { server_->adopt(std::move(*taken)); });
}

void TcpLane::begin(LaneShare share) {
  box_->push([this, share = std::move(share)] { add(share); });
}

void TcpLane::cancel(TransferId transfer) {
  box_->push([this, transfer] { end(transfer, ended_by_owner()); });
}

void TcpLane::forget(const ChannelKey& channel) {
  box_->push([this, channel] {
    std::erase_if(streams_, [&](const auto& each) {
      return each.first.channel == channel && each.second.chunks == 0;
    });
  });
}

void TcpLane::add(LaneShare share) {
  const TransferId transfer = share.transfer;
  const StreamKey key{share.from, share.right};
  stream_of(share).turns.push_back(transfer);
  Row row;
  row.share = std::move(share);
  row.stream = key;
  row.began = row.moved = monotonic_now();
  rows_.emplace(transfer, std::move(row));
  if (!look_timer_->armed()) look_timer_->arm(monotonic_now() + lane_look_every);
  fill(key);
}

TcpLane::Stream& TcpLane::stream_of(const LaneShare& share) {
  const StreamKey key{share.from, share.right};
  if (!streams_.contains(key) && streams_.size() >= max_streams) {
    std::erase_if(streams_, [](const auto& each) {
      return each.second.chunks == 0 && each.second.turns.empty();
    });
  }
  // A right that has been replaced leaves a connection that nobody asks for anything.
  std::erase_if(streams_, [&](const auto& each) {
    return each.first.channel == key.channel && each.first != key && each.second.chunks == 0 &&
           each.second.turns.empty();
  });
  Stream& stream = streams_[key];
  if (!stream.client) {
    stream.client = std::make_unique<BulkClient>(
        thread_->loop(), BulkTarget{share.address, share.right.token, share.right.key});
  }
  return stream;
}

// Each share asks for a chunk in turn.
void TcpLane::fill(const StreamKey& key) {
  const auto at = streams_.find(key);
  if (at == streams_.end()) return;
  Stream& stream = at->second;
  while (!stream.turns.empty() && stream.chunks < max_chunks_asked &&
         (stream.chunks == 0 || stream.bytes < max_bytes_asked)) {
    const auto row = rows_.find(stream.turns.front());
    if (row == rows_.end() || row->second.next == row->second.share.chunks.size()) {
      stream.turns.pop_front();
      continue;
    }
    // Cancelled fetches still wait for their answers: look() tries again.
    if (!ask(stream, row->second)) return;
    std::rotate(stream.turns.begin(), stream.turns.begin() + 1, stream.turns.end());
  }
}

Result<void> TcpLane::ask(Stream& stream, Row& row) {
  const std::size_t number = row.next;
  const auto& [chunk, to] = row.share.chunks[number];
  const TransferId transfer = row.share.transfer;
  BulkFetch fetch;
  fetch.request = TcpRequest{transfer, row.share.token, chunk}.encode();
  fetch.on_header = [room = std::span(to, chunk.size)](
                        std::span<const std::byte>,
                        std::uint64_t length) -> Result<std::span<std::byte>> {
    if (length == room.size()) return room;
    return failure(
        ErrorCode::corrupt,
        fmt::format("a holder sends {} bytes, where {} were asked for", length, room.size()));
  };
  fetch.on_done = [this, transfer, number](const Result<void>& result) {
    on_done(transfer, number, result);
  };
  const auto asked = stream.client->fetch(std::move(fetch));
  if (!asked) return asked.error();
  row.under_way.emplace(number, *asked);
  ++row.next;
  ++stream.chunks;
  stream.bytes += chunk.size;
  return {};
}

void TcpLane::on_done(TransferId transfer, std::size_t chunk, const Result<void>& result) {
  const auto at = rows_.find(transfer);
  if (at == rows_.end()) return;
  Row& row = at->second;
  const StreamKey key = row.stream;
  row.under_way.erase(chunk);
  row.moved = monotonic_now();
  Stream& stream = streams_.at(key);
  --stream.chunks;
  stream.bytes -= row.share.chunks[chunk].first.size;
  if (!result) {
    end(transfer, result);
  } else if (row.under_way.empty() && row.next == row.share.chunks.size()) {
    end(transfer, {});
  }
  fill(key);
}

void TcpLane::end(TransferId transfer, const Result<void>& result) {
  auto node = rows_.extract(transfer);
  if (node.empty()) return;
  Row& row = node.mapped();
  Stream& stream = streams_.at(row.stream);
  for (const auto& [chunk, fetch] : row.under_way) {
    stream.client->cancel(fetch);
    --stream.chunks;
    stream.bytes -= row.share.chunks[chunk].first.size;
  }
  row.share.ended(result, row.began);
  fill(row.stream);
}

// Ends shares whose holder is silent. A stop of this process is not the holder's silence.
void TcpLane::look() {
  const Time now = monotonic_now();
  const Duration gap = thread_->loop().last_turn().gap;
  box_->run();
  std::set<StreamKey> moving;
  for (auto& [key, stream] : streams_) {
    const std::uint64_t received = stream.client->received();
    if (std::exchange(stream.received, received) != received) moving.insert(key);
  }
  std::vector<TransferId> late;
  for (auto& [transfer, row] : rows_) {
    if (gap > peer_gap_limit || moving.contains(row.stream)) row.moved = now;
    if (now - row.moved > row.share.silence_limit) late.push_back(transfer);
  }
  for (const TransferId transfer : late) {
    end(transfer, failure(ErrorCode::timed_out, "the holder does not answer"));
  }
  std::vector<StreamKey> keys;
  for (const auto& [key, stream] : streams_) keys.push_back(key);
  for (const StreamKey& key : keys) fill(key);
  if (!rows_.empty()) look_timer_->arm(now + lane_look_every);
}

}  // namespace mobula::internal
