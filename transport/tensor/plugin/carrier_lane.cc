#include "transport/tensor/plugin/carrier_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

namespace mobula::internal {
namespace {

constexpr Duration carrier_check_interval = 50ms;
constexpr std::size_t max_pending = 8;  // pending requests per holder
constexpr std::size_t max_links = 1'024;
constexpr std::size_t max_endpoint = 2'048;
constexpr std::size_t max_refusal = 4'096;

// Kind of a message. The values are sent to other processes: append only.
enum class Word : std::uint8_t {
  request = 1,  // request number (8), access token (32), request
  answer = 2,   // request number (8), the chunk
  refuse = 3,   // request number (8), error code (1), text
};

BlobWriter head_of(Word word, std::uint64_t question) {
  BlobWriter to;
  to.byte(static_cast<std::uint8_t>(word)).number(question);
  return to;
}

}  // namespace

CarrierLane::CarrierLane(TcpOffers& offers, const mobula_transport_plugin& plugin,
                         std::unique_ptr<LoopThread> thread)
    : offers_(offers),
      plugin_(plugin),
      thread_(std::move(thread)),
      box_(std::make_shared<Mailbox>(thread_->loop())) {}

Result<std::unique_ptr<CarrierLane>> CarrierLane::start(TcpOffers& offers,
                                                        const mobula_transport_plugin& plugin,
                                                        const std::string& listen) {
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  std::unique_ptr<CarrierLane> made(new CarrierLane(offers, plugin, std::move(thread).value()));
  Result<void> opened;
  auto ran = made->thread_->run([&] { opened = made->open(listen); });
  if (!ran) return ran.error();
  if (!opened) return opened.error();
  return made;
}

Result<void> CarrierLane::open(const std::string& listen) {
  check_timer_ = std::make_unique<Timer>(thread_->loop(), [this] { check(); });
  host_ = {MOBULA_TRANSPORT_PLUGIN_VERSION, this,
           [](void* host, std::uint64_t link, const void* bytes, std::size_t size) {
             static_cast<CarrierLane*>(host)->on_message(
                 link, {static_cast<const std::byte*>(bytes), size});
           },
           [](void* host, std::uint64_t link, const char* why) {
             auto* const self = static_cast<CarrierLane*>(host);
             const auto at = self->channels_.find(link);
             if (at == self->channels_.end()) return;
             self->drop_link(ChannelKey(at->second), failure(ErrorCode::unavailable, why));
           }};
  std::array<char, 512> why{};
  guarded([&] { carrier_ = plugin_.create(&host_, listen.c_str(), why.data(), why.size()); });
  why.back() = '\0';
  if (carrier_ == nullptr) {
    return failure(ErrorCode::unavailable,
                   fmt::format("{}: {}", plugin_.name, broken_.empty() ? why.data() : broken_));
  }
  address_.resize(max_endpoint);
  std::size_t size = 0;
  int descriptor = -1;
  guarded([&] {
    size = plugin_.endpoint(carrier_, address_.data(), address_.size());
    descriptor = plugin_.descriptor(carrier_);
  });
  auto watch = thread_->loop().watch(descriptor, Interest::read, [this](Readiness) { poll(); });
  if (carrier_ == nullptr || !watch || size == 0 || size > max_endpoint) {
    return failure(ErrorCode::unavailable,
                   fmt::format("{}: {}", plugin_.name,
                               carrier_ == nullptr ? broken_
                               : !watch            ? watch.error().text
                                                   : fmt::format("an endpoint of {} bytes", size)));
  }
  address_.resize(size);
  watch_ = std::move(watch).value();
  check_timer_->arm(monotonic_now() + carrier_check_interval);
  return {};
}

CarrierLane::~CarrierLane() {
  // The lane itself drains its mailbox, so it is full only briefly.
  while (!thread_->run([this] { close(); })) std::this_thread::yield();
}

void CarrierLane::close() {
  box_->close();
  check_timer_.reset();
  rows_.clear();
  links_.clear();
  channels_.clear();
  watch_.reset();
  if (carrier_ != nullptr) guarded([&] { plugin_.destroy(carrier_); });
  carrier_ = nullptr;
}

template <class Call>
bool CarrierLane::guarded(const Call& call) {
  if (!broken_.empty()) return false;
  try {
    call();
    return true;
  } catch (const std::exception& thrown) {
    break_down(thrown.what());
  } catch (...) {
    break_down("no std::exception");
  }
  return false;
}

// After an exception the carrier may be in any state, so it is not used any more, and not even
// destroyed.
void CarrierLane::break_down(const std::string& why) {
  broken_ = fmt::format("the plugin '{}' threw: {}; it is used no more", plugin_.name, why);
  carrier_ = nullptr;
  watch_.reset();
  while (!links_.empty()) {
    drop_link(ChannelKey(links_.begin()->first), failure(ErrorCode::unavailable, broken_));
  }
}

void CarrierLane::poll() {
  int again = 0;
  guarded([&] { again = plugin_.poll(carrier_); });
  // Runs in a later iteration, so that the loop serves its mailbox first.
  if (again != 0 && check_timer_) check_timer_->arm(Time());
}

void CarrierLane::begin(LaneShare share) {
  box_->push([this, share = std::move(share)] { add(share); });
}

void CarrierLane::cancel(TransferId transfer) {
  box_->push([this, transfer] { end(transfer, ended_by_owner()); });
}

void CarrierLane::forget(const ChannelKey& channel) {
  box_->push([this, channel] {
    drop_link(channel, failure(ErrorCode::cancelled, "the channel was closed"));
  });
}

void CarrierLane::add(LaneShare share) {
  const TransferId transfer = share.transfer;
  const ChannelKey key = share.from;
  const auto link = link_of(share);
  if (!link) return share.ended(link.error(), monotonic_now());
  (*link)->turns.push_back(transfer);
  Row row;
  row.serial = next_serial_++;
  row.left = share.chunks.size();
  row.share = std::move(share);
  row.began = row.moved = monotonic_now();
  rows_.emplace(transfer, std::move(row));
  fill(key);
}

Result<CarrierLane::Link*> CarrierLane::link_of(const LaneShare& share) {
  if (const auto at = links_.find(share.from); at != links_.end()) return &at->second;
  if (links_.size() >= max_links) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{}: {} links are open, which is the limit", plugin_.name, links_.size()));
  }
  std::array<char, 512> why{};
  std::uint64_t number = 0;
  guarded([&] {
    number = plugin_.connect(carrier_, share.address.data(), share.address.size(), why.data(),
                             why.size());
  });
  why.back() = '\0';
  if (number == 0 || channels_.contains(number)) {
    return failure(ErrorCode::unavailable,
                   fmt::format("{}: {}", plugin_.name, broken_.empty() ? why.data() : broken_));
  }
  channels_.emplace(number, share.from);
  Link& link = links_[share.from];
  link.number = number;
  link.last_received = monotonic_now();
  return &link;
}

// Requests chunks for the shares in round-robin order.
void CarrierLane::fill(const ChannelKey& key) {
  for (;;) {
    const auto at = links_.find(key);
    if (at == links_.end()) return;
    Link& link = at->second;
    if (link.turns.empty() || link.pending.size() >= max_pending) return;
    const auto found = rows_.find(link.turns.front());
    if (found == rows_.end() || found->second.next == found->second.share.chunks.size()) {
      link.turns.pop_front();
      continue;
    }
    Row& row = found->second;
    if (link.pending.empty()) link.last_received = monotonic_now();
    const std::uint64_t question = next_question_++;
    link.pending.emplace(question, PendingRequest{row.share.transfer, row.serial, row.next});
    BlobWriter request = head_of(Word::request, question);
    const TcpChunk chunk = row.share.chunks[row.next++].first;
    request.raw(row.share.right.token)
        .raw(TcpRequest{row.share.transfer, row.share.token, chunk}.encode());
    std::rotate(link.turns.begin(), link.turns.begin() + 1, link.turns.end());
    if (!send(link.number, request.bytes(), {})) {
      return drop_link(key,
                       failure(ErrorCode::unavailable, "the link to the holder takes no more"));
    }
  }
}

bool CarrierLane::send(std::uint64_t number, std::span<const std::byte> head,
                       std::span<const std::byte> body) {
  const std::array<mobula_carrier_bytes, 2> parts{
      {{head.data(), head.size()}, {body.data(), body.size()}}};
  int refused = 1;
  guarded([&] { refused = plugin_.send(carrier_, number, parts.data(), body.empty() ? 1 : 2); });
  return refused == 0;
}

void CarrierLane::on_message(std::uint64_t number, std::span<const std::byte> bytes) {
  BlobReader from(bytes);
  const auto word = static_cast<Word>(from.byte());
  const std::uint64_t question = from.number();
  const auto rest = from.raw(from.left());
  if (from.broken()) return;
  if (word == Word::request) serve(number, question, rest);
  if (word == Word::answer) on_answer(number, question, rest);
  if (word == Word::refuse) on_refusal(number, question, rest);
}

// Replies to a receiver with the chunk or an error.
void CarrierLane::serve(std::uint64_t number, std::uint64_t question,
                        std::span<const std::byte> rest) {
  BlobReader from(rest);
  BulkToken token{};
  const auto given = from.raw(token.size());
  if (!from.broken()) std::copy(given.begin(), given.end(), token.begin());
  const auto request = from.raw(from.left());
  const auto right = from.broken() ? std::nullopt : offers_.access(token);
  auto body = right ? offers_.read(right->principal, request)
                    : Result<BulkBody>(failure(ErrorCode::permission_denied,
                                               "the right to read here is unknown or has ended"));
  bool sent = false;
  if (body) {
    sent = send(number, head_of(Word::answer, question).bytes(), body->bytes);
    body->release();
  } else {
    BlobWriter refusal = head_of(Word::refuse, question);
    refusal.byte(static_cast<std::uint8_t>(body.error().code));
    const auto text = std::as_bytes(std::span(body.error().text));
    refusal.raw(text.first(std::min(text.size(), max_refusal)));
    sent = send(number, refusal.bytes(), {});
  }
  if (!sent) guarded([&] { plugin_.drop(carrier_, number); });
}

std::optional<CarrierLane::PendingRequest> CarrierLane::take_question(std::uint64_t number,
                                                                      std::uint64_t question) {
  const auto channel = channels_.find(number);
  if (channel == channels_.end()) return std::nullopt;
  Link& link = links_.at(channel->second);
  auto node = link.pending.extract(question);
  if (node.empty()) return std::nullopt;
  link.last_received = monotonic_now();
  return node.mapped();
}

CarrierLane::Row* CarrierLane::row_of(const PendingRequest& pending) {
  const auto at = rows_.find(pending.transfer);
  return at == rows_.end() || at->second.serial != pending.serial ? nullptr : &at->second;
}

void CarrierLane::on_answer(std::uint64_t number, std::uint64_t question,
                            std::span<const std::byte> body) {
  const auto pending = take_question(number, question);
  if (!pending) return;
  const ChannelKey key = channels_.at(number);
  if (Row* const row = row_of(*pending)) {
    const auto& [chunk, to] = row->share.chunks[pending->chunk];
    if (body.size() != chunk.size) {
      end(pending->transfer,
          failure(ErrorCode::corrupt, fmt::format("a holder sends {} bytes, but {} were requested",
                                                  body.size(), chunk.size)));
    } else {
      if (!body.empty()) std::memcpy(to, body.data(), body.size());
      row->moved = monotonic_now();
      if (--row->left == 0) end(pending->transfer, {});
    }
  }
  fill(key);
}

void CarrierLane::on_refusal(std::uint64_t number, std::uint64_t question,
                             std::span<const std::byte> rest) {
  const auto pending = take_question(number, question);
  if (!pending) return;
  const ChannelKey key = channels_.at(number);
  const auto code = rest.empty() ? ErrorCode{} : static_cast<ErrorCode>(rest.front());
  const bool known = code >= ErrorCode::not_found && code <= ErrorCode::permission_denied;
  const auto text = rest.empty() ? rest : rest.subspan(1);
  if (row_of(*pending) == nullptr) return fill(key);
  end(pending->transfer,
      known ? failure(code, std::string(reinterpret_cast<const char*>(text.data()), text.size()))
            : failure(ErrorCode::corrupt, "a holder refuses without a reason"));
  fill(key);
}

void CarrierLane::end(TransferId transfer, const Result<void>& result) {
  const auto node = rows_.extract(transfer);
  if (!node.empty()) node.mapped().share.ended(result, node.mapped().began);
}

void CarrierLane::drop_link(const ChannelKey& key, const Failure& why) {
  const auto node = links_.extract(key);
  if (node.empty()) return;
  channels_.erase(node.mapped().number);
  guarded([&] { plugin_.drop(carrier_, node.mapped().number); });
  std::vector<TransferId> of_it;
  for (const auto& [transfer, row] : rows_) {
    if (row.share.from == key) of_it.push_back(transfer);
  }
  for (const TransferId transfer : of_it) end(transfer, why);
}

// Ends shares of silent holders, with their connection. A stop of this process does not count as
// silence of a holder.
void CarrierLane::check() {
  const Time now = monotonic_now();
  const Duration gap = thread_->loop().last_turn().gap;
  check_timer_->arm(now + carrier_check_interval);
  box_->run();
  poll();
  std::vector<ChannelKey> silent;
  for (auto& [transfer, row] : rows_) {
    Link& link = links_.at(row.share.from);
    if (gap > peer_gap_threshold) link.last_received = now;
    if (now - std::max(row.moved, link.last_received) > row.share.silence_timeout)
      silent.push_back(row.share.from);
  }
  for (const ChannelKey& key : silent) {
    drop_link(key, failure(ErrorCode::timed_out, "the holder does not reply"));
  }
}

}  // namespace mobula::internal
