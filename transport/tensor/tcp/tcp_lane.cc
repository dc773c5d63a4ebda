#include "transport/tensor/tcp/tcp_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "device/host.h"

namespace mobula::internal {
namespace {

constexpr Duration lane_check_interval = 50ms;
// Limits of requested, not yet received chunks per connection.
constexpr std::size_t max_pending_chunks = 64;
constexpr std::uint64_t max_pending_bytes = 16u << 20;
constexpr std::size_t max_streams = 4'096;

}  // namespace

TcpLane::TcpLane(TcpOffers& offers, std::unique_ptr<LoopThread> thread)
    : offers_(offers),
      thread_(std::move(thread)),
      box_(std::make_shared<Mailbox>(thread_->loop())) {}

Result<std::unique_ptr<TcpLane>> TcpLane::start(TcpOffers& offers,
                                                std::function<bool(Fd&)> hand_over,
                                                const CpuList& cpus) {
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  std::unique_ptr<TcpLane> made(new TcpLane(offers, std::move(thread).value()));
  auto ran = made->thread_->run([&] {
    (void)run_on(cpus);
    made->open(std::move(hand_over));
  });
  if (!ran) return ran.error();
  return made;
}

void TcpLane::open(std::function<bool(Fd&)> hand_over) {
  check_timer_ = std::make_unique<Timer>(thread_->loop(), [this] { check(); });
  BulkServerCallbacks callbacks;
  callbacks.access = [this](const BulkToken& token) { return offers_.access(token); };
  callbacks.on_request = [this](BulkExchange exchange, const std::string& principal,
                                std::span<const std::byte> request) {
    on_request(exchange, principal, request);
  };
  callbacks.hand_over = std::move(hand_over);
  // A receiver that stops reading blocks the source, so the limit is short.
  server_ = std::make_unique<BulkServer>(thread_->loop(), std::move(callbacks),
                                         BulkServerOptions{.silence_timeout = 5s});
}

// Replies with a chunk. A chunk of a device is first copied to the host.
void TcpLane::on_request(BulkExchange exchange, const std::string& principal,
                         std::span<const std::byte> request) {
  auto chunk = offers_.find(principal, request);
  if (!chunk) return (void)server_->refuse(exchange, chunk.error());
  if (!chunk->stage) {
    BulkBody body{chunk->bytes, [hold = std::move(chunk->hold)]() mutable { hold.reset(); }};
    return (void)server_->reply(exchange, {}, std::move(body));
  }
  const auto stage = chunk->stage;
  stage->read(chunk->bytes, chunk->wanted,
              [this, box = box_, exchange, hold = chunk->hold](Result<StagedChunk> read) {
                box->push([this, exchange, hold, read = std::move(read)] {
                  if (!read) return (void)server_->refuse(exchange, read.error());
                  BulkBody body{read->bytes, [hold, keeps = read->keeps]() mutable {
                                  keeps.reset();
                                  hold.reset();
                                }};
                  (void)server_->reply(exchange, {}, std::move(body));
                });
              });
}

TcpLane::~TcpLane() {
  // The lane itself drains its mailbox, so it is full only briefly.
  while (!thread_->run([this] { close(); })) std::this_thread::yield();
}

void TcpLane::close() {
  box_->close();
  check_timer_.reset();
  rows_.clear();
  streams_.clear();
  server_.reset();
}

Result<std::string> TcpLane::listen(const std::string& address) {
  Result<std::string> bound(failure(ErrorCode::unavailable, "the lane is not listening"));
  auto ran = thread_->run([&] { bound = server_->listen(address); });
  if (!ran) return ran.error();
  return bound;
}

void TcpLane::adopt(Fd socket) {
  // Shared, because posted functions are copied.
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
  if (!check_timer_->armed()) check_timer_->arm(monotonic_now() + lane_check_interval);
  fill(key);
}

TcpLane::Stream& TcpLane::stream_of(const LaneShare& share) {
  const StreamKey key{share.from, share.right};
  if (!streams_.contains(key) && streams_.size() >= max_streams) {
    std::erase_if(streams_, [](const auto& each) {
      return each.second.chunks == 0 && each.second.turns.empty();
    });
  }
  // A replaced access token leaves an unused connection.
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

// Requests chunks for the shares in round-robin order. A share without a buffer does not block the
// others.
void TcpLane::fill(const StreamKey& key) {
  const auto at = streams_.find(key);
  if (at == streams_.end()) return;
  Stream& stream = at->second;
  std::size_t without_space = 0;  // in sequence
  while (without_space < stream.turns.size() && stream.chunks < max_pending_chunks &&
         (stream.chunks == 0 || stream.bytes < max_pending_bytes)) {
    const auto row = rows_.find(stream.turns.front());
    if (row == rows_.end() || row->second.over ||
        row->second.next == row->second.share.chunks.size()) {
      stream.turns.pop_front();
      continue;
    }
    const RequestResult done = request(stream, row->second);
    // Cancelled fetches still wait for their replies. check() retries.
    if (done == RequestResult::refused) return;
    without_space = done == RequestResult::no_space ? without_space + 1 : 0;
    std::rotate(stream.turns.begin(), stream.turns.begin() + 1, stream.turns.end());
  }
}

void TcpLane::fill_all() {
  std::vector<StreamKey> keys;
  for (const auto& [key, stream] : streams_) keys.push_back(key);
  for (const StreamKey& key : keys) fill(key);
}

// Reserves a buffer. If none is free, the stage reports once when one may be free.
std::optional<StagedChunk> TcpLane::allocate_for(const Row& row, std::uint64_t size) {
  ChunkStage* const stage = row.share.stage.get();
  std::function<void()> freed;
  if (!awaited_.contains(stage)) {
    freed = [this, box = box_, stage] {
      box->push([this, stage] {
        awaited_.erase(stage);
        fill_all();
      });
    };
  }
  auto buffer = stage->allocate(row.share.from.peer, size, std::move(freed));
  if (!buffer) awaited_.insert(stage);
  return buffer;
}

TcpLane::RequestResult TcpLane::request(Stream& stream, Row& row) {
  const std::size_t number = row.next;
  const auto& [chunk, to] = row.share.chunks[number];
  const TransferId transfer = row.share.transfer;
  StagedChunk staged;
  std::span<std::byte> there(to, chunk.size);
  if (row.share.stage && chunk.size > 0) {
    auto buffer = allocate_for(row, chunk.size);
    if (!buffer) return RequestResult::no_space;
    staged = std::move(*buffer);
    there = staged.bytes;
  }
  BulkFetch fetch;
  fetch.request = TcpRequest{transfer, row.share.token, chunk}.encode();
  const bool untouched = row.share.untouched && !row.share.stage;
  fetch.on_header = [this, buffer = there, untouched](
                        std::span<const std::byte>,
                        std::uint64_t length) -> Result<std::span<std::byte>> {
    if (length == buffer.size()) {
      if (untouched) first_touch_.populate(buffer);
      return buffer;
    }
    return failure(ErrorCode::corrupt, fmt::format("a holder sends {} bytes, but {} were requested",
                                                   length, buffer.size()));
  };
  fetch.on_done = [this, transfer, number](const Result<void>& result) {
    on_done(transfer, number, result);
  };
  const auto started = stream.client->fetch(std::move(fetch));
  if (!started) return RequestResult::refused;
  row.under_way.emplace(number, UnderWay{*started, std::move(staged)});
  ++row.next;
  ++stream.chunks;
  stream.bytes += chunk.size;
  return RequestResult::sent;
}

void TcpLane::on_done(TransferId transfer, std::size_t chunk, const Result<void>& result) {
  const auto at = rows_.find(transfer);
  if (at == rows_.end()) return;
  Row& row = at->second;
  const StreamKey key = row.stream;
  auto node = row.under_way.extract(chunk);
  row.moved = monotonic_now();
  Stream& stream = streams_.at(key);
  --stream.chunks;
  stream.bytes -= row.share.chunks[chunk].first.size;
  if (!result) {
    end(transfer, result);
  } else {
    if (node.mapped().buffer.keeps) write(row, chunk, std::move(node.mapped().buffer));
    finish_if_over(at);
  }
  fill(key);
}

// Copies a chunk to the device. The destructor of the transport waits for this use of the target.
void TcpLane::write(Row& row, std::size_t chunk, StagedChunk buffer) {
  ++row.writing;
  row.share.stage->write(row.share.chunks[chunk].second, std::move(buffer),
                         [this, box = box_, transfer = row.share.transfer,
                          use = offers_.begin_stage()](const Result<void>& written) {
                           box->push([this, transfer, written] { on_written(transfer, written); });
                         });
}

void TcpLane::on_written(TransferId transfer, const Result<void>& result) {
  const auto at = rows_.find(transfer);
  if (at == rows_.end()) return;
  Row& row = at->second;
  --row.writing;
  row.moved = monotonic_now();
  if (!result && !row.over) return end(transfer, result);
  finish_if_over(at);
}

// A share ends with its last chunk, or after a stop when nothing is written any more.
void TcpLane::finish_if_over(std::map<TransferId, Row>::iterator at) {
  const Row& row = at->second;
  const bool whole = row.under_way.empty() && row.next == row.share.chunks.size();
  if (row.writing > 0 || (!row.over && !whole)) return;
  const auto node = rows_.extract(at);
  const Row& gone = node.mapped();
  gone.share.ended(gone.over ? *gone.over : Result<void>(), gone.began);
}

void TcpLane::end(TransferId transfer, const Result<void>& result) {
  const auto at = rows_.find(transfer);
  if (at == rows_.end() || at->second.over) return;
  Row& row = at->second;
  const StreamKey key = row.stream;
  for (const auto& [chunk, fetched] : row.under_way) {
    Stream& stream = streams_.at(key);
    stream.client->cancel(fetched.fetch);
    --stream.chunks;
    stream.bytes -= row.share.chunks[chunk].first.size;
  }
  row.under_way.clear();
  row.over = result;
  finish_if_over(at);
  fill(key);
}

// Ends shares of silent holders. A stop of this process does not count as silence of a holder.
void TcpLane::check() {
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
    if (row.over) continue;
    // A share that waits for its own buffer has requested nothing from the holder.
    const bool waits = row.share.stage != nullptr && row.under_way.empty();
    if (gap > peer_gap_threshold || waits || moving.contains(row.stream)) row.moved = now;
    if (now - row.moved > row.share.silence_timeout) late.push_back(transfer);
  }
  for (const TransferId transfer : late) {
    end(transfer, failure(ErrorCode::timed_out, "the holder does not reply"));
  }
  fill_all();
  if (!rows_.empty()) check_timer_->arm(now + lane_check_interval);
}

}  // namespace mobula::internal
