#include "worker/transfers/bulk_transfers.h"

#include <algorithm>
#include <cstring>

namespace mobula::internal::worker {
namespace {

template <std::size_t size>
std::optional<std::array<std::byte, size>> bytes_of(const std::string& text) {
  if (text.size() != size) return std::nullopt;
  std::array<std::byte, size> bytes;
  std::memcpy(bytes.data(), text.data(), size);
  return bytes;
}

template <std::size_t size>
std::string text_of(const std::array<std::byte, size>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), size};
}

}  // namespace

Result<std::unique_ptr<BulkTransfers>> BulkTransfers::start(EventLoop& loop, std::size_t lanes,
                                                            std::function<void(Event)> tell) {
  std::unique_ptr<BulkTransfers> self(new BulkTransfers());
  BulkTransfers* here = self.get();
  self->tell_ = std::move(tell);
  for (std::size_t i = 0; i < std::max<std::size_t>(1, lanes); ++i) {
    auto thread = LoopThread::start();
    if (!thread) return thread.error();
    self->lanes_.push_back({std::move(*thread), nullptr, 0});
  }
  for (std::size_t i = 0; i < self->lanes_.size(); ++i) {
    Lane& row = self->lanes_[i];
    auto deliver = deliver_on(
        loop, [here](Event event) { here->take(std::move(event)); }, self->alive_);
    std::function<bool(Fd&)> hand_over;
    if (i == 0 && self->lanes_.size() > 1)
      hand_over = [here](Fd& fd) { return here->hand_over(fd); };
    const auto made = row.thread->run([&] {
      row.lane = std::make_unique<BulkLane>(row.thread->loop(), self->offers_, std::move(deliver),
                                            std::move(hand_over));
    });
    if (!made) return made.error();
  }
  return self;
}

// The first lane hands connections over to the others, so it ends first.
BulkTransfers::~BulkTransfers() {
  *alive_ = false;
  for (Lane& row : lanes_) {
    (void)row.thread->run([&row] { row.lane.reset(); });
  }
}

void BulkTransfers::on_lane(std::size_t index, std::function<void(BulkLane&)> work) {
  Lane& row = lanes_.at(index);
  const auto posted = row.thread->loop().post([&row, work = std::move(work)] { work(*row.lane); });
  MOBULA_CHECK(posted.ok(), "the core asks for fewer transfers than the mailbox holds");
}

Result<std::string> BulkTransfers::listen(const std::string& address) {
  Result<std::string> bound = failure(ErrorCode::unavailable, "no lane has tried to listen");
  Lane& first = lanes_.front();
  const auto ran = first.thread->run([&] { bound = first.lane->listen(address); });
  if (!ran) return ran.error();
  return bound;
}

// Round robin, so that the connections of one reader spread over the threads.
bool BulkTransfers::hand_over(Fd& socket) {
  const std::size_t index = next_server_++ % lanes_.size();
  if (index == 0) return false;
  Lane& row = lanes_[index];
  const auto given = std::make_shared<Fd>(std::move(socket));  // shared: functions are copied
  const auto posted = row.thread->loop().post([&row, given] {
    if (row.lane) row.lane->adopt(std::move(*given));
  });
  if (!posted) socket = std::move(*given);
  return posted.ok();
}

void BulkTransfers::take(Event event) {
  if (const auto* fetched = std::get_if<ChunkFetched>(&event)) {
    const auto at = lane_of_.find(fetched->chunk);
    if (at != lane_of_.end()) {
      --lanes_[at->second].chunks;
      lane_of_.erase(at);
    }
  }
  tell_(std::move(event));
}

void BulkTransfers::offer(std::uint64_t offer, ProcessId reader, bool plain,
                          Result<BulkSource> source) {
  BulkOffered answer;
  answer.offer = offer;
  if (!source) {
    answer.failure = source.error();
    return tell_(std::move(answer));
  }
  answer.size_bytes = static_cast<std::int64_t>(source->bytes.size());
  const auto right = offers_->add(monotonic_now(), offer, reader, plain, std::move(*source));
  answer.token = text_of(right.token);
  if (right.key) answer.key = text_of(*right.key);
  tell_(std::move(answer));
}

void BulkTransfers::withdraw(std::uint64_t offer) {
  on_lane(0, [offer](BulkLane& lane) { lane.withdraw(offer); });
}

void BulkTransfers::fetch(const FetchBulk& command, Result<BulkSpace> space) {
  const auto right = bytes_of<32>(command.token);
  const auto seal = bytes_of<32>(command.key);
  if (space && (!right || (!seal && !command.key.empty()))) {
    space = failure(ErrorCode::corrupt, "the peer's token is invalid");
  }
  if (!space) return tell_(ChunkFetched{command.chunk, space.error()});
  const auto least =
      std::min_element(lanes_.begin(), lanes_.end(),
                       [](const Lane& a, const Lane& b) { return a.chunks < b.chunks; });
  const auto index = static_cast<std::size_t>(least - lanes_.begin());
  ++least->chunks;
  lane_of_[command.chunk] = index;
  BulkChunk part;
  part.chunk = command.chunk;
  part.from = {command.from.bulk, *right, seal};
  part.offer = command.offer;
  part.offset = command.offset;
  part.space = std::move(*space);
  on_lane(index, [part = std::move(part)](BulkLane& lane) { lane.fetch(part); });
}

void BulkTransfers::cancel(std::uint64_t chunk) {
  const auto at = lane_of_.find(chunk);
  if (at == lane_of_.end()) return;
  on_lane(at->second, [chunk](BulkLane& lane) { lane.cancel(chunk); });
}

void BulkTransfers::finish(std::uint64_t pull, std::function<Result<void>()> check) {
  on_lane(0, [pull, check = std::move(check)](BulkLane& lane) {
    PullFinished finished{pull, std::nullopt};
    if (const auto checked = check(); !checked) finished.failure = checked.error();
    lane.tell(std::move(finished));
  });
}

}  // namespace mobula::internal::worker
