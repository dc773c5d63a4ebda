#include "worker/bulk_transfers.h"

#include <cstring>

#include "base/log.h"
#include "worker/event_delivery.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration unread_offer_life = 60s;  // until a reader has asked for the bytes
constexpr Duration tell_again = 10ms;

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

// What lives on the thread of the transfers.
class BulkTransfers::Desk {
 public:
  Desk(EventLoop& loop, DeliverEvents deliver)
      : loop_(loop),
        deliver_(std::move(deliver)),
        expiry_(loop, [this] { expire(); }),
        again_(loop, [this] { flush(); }),
        server_(loop, callbacks()) {}

  Result<std::string> listen(const std::string& address) { return server_.listen(address); }

  void offer(std::uint64_t id, const std::function<Result<BulkSource>()>& open) {
    BulkOffered answer;
    answer.offer = id;
    auto source = open();
    if (!source) {
      answer.failure = source.error();
      return tell(std::move(answer));
    }
    Offer row{.source = std::move(*source),
              .token = random_secret(),
              .key = random_secret(),
              .until = monotonic_now() + unread_offer_life};
    answer.size_bytes = static_cast<std::int64_t>(row.source.bytes.size());
    answer.token = text_of(row.token);
    answer.key = text_of(row.key);
    tokens_.emplace(row.token, id);
    offers_.emplace(id, std::move(row));
    if (!expiry_.armed()) expiry_.arm(monotonic_now() + unread_offer_life);
    tell(std::move(answer));
  }

  // One that is being read ends with its connection.
  void withdraw(std::uint64_t id) {
    const auto at = offers_.find(id);
    if (at != offers_.end() && !at->second.asked) served(id);
  }

  void pull(std::uint64_t id, const BulkTarget& target,
            const std::function<Result<BulkRoom>()>& open) {
    auto room = open();
    if (!room) return tell(PullFinished{id, room.error()});
    Pull& row = pulls_[id];
    row.room = std::move(*room);
    row.client = std::make_unique<BulkClient>(loop_, target);
    BulkFetch fetch;
    fetch.request = {std::byte{1}};
    fetch.on_header = [this, id](std::span<const std::byte>,
                                 std::uint64_t length) -> Result<std::span<std::byte>> {
      const auto bytes = pulls_.at(id).room.bytes;
      if (length == bytes.size()) return bytes;
      return failure(ErrorCode::corrupt, "the peer offers " + std::to_string(length) +
                                             " bytes, expected are " +
                                             std::to_string(bytes.size()));
    };
    fetch.on_done = [this, id](Result<void> outcome) { pulled(id, std::move(outcome)); };
    const auto begun = row.client->fetch(std::move(fetch));
    if (!begun) pulled(id, begun.error());
  }

  void cancel(std::uint64_t id) {
    if (pulls_.contains(id)) pulled(id, failure(ErrorCode::cancelled, "nobody wants it any more"));
  }

 private:
  struct Offer {
    BulkSource source;
    BulkToken token{};
    SealKey key{};
    Time until{};
    bool asked = false;
  };
  struct Pull {
    BulkRoom room;
    std::unique_ptr<BulkClient> client{};
  };

  BulkServerCallbacks callbacks() {
    BulkServerCallbacks callbacks;
    callbacks.access = [this](const BulkToken& token) -> std::optional<BulkAccess> {
      const auto at = tokens_.find(token);
      if (at == tokens_.end()) return std::nullopt;
      return BulkAccess{offers_.at(at->second).key, std::to_string(at->second)};
    };
    callbacks.on_request = [this](BulkExchange exchange, const std::string& principal,
                                  std::span<const std::byte>) {
      serve(exchange, std::stoull(principal));
    };
    return callbacks;
  }

  void serve(BulkExchange exchange, std::uint64_t id) {
    const auto at = offers_.find(id);
    if (at == offers_.end() || at->second.asked) {
      (void)server_.refuse(exchange, failure(ErrorCode::not_found, "this offer is over"));
      return;
    }
    at->second.asked = true;
    tokens_.erase(at->second.token);
    (void)server_.reply(exchange, {}, {at->second.source.bytes, [this, id] { served(id); }});
  }

  void served(std::uint64_t id) {
    const auto at = offers_.find(id);
    if (at == offers_.end()) return;
    tokens_.erase(at->second.token);
    offers_.erase(at);
    tell(BulkServed{id});
  }

  void expire() {
    const Time now = monotonic_now();
    std::vector<std::uint64_t> late;
    std::optional<Time> next;
    for (const auto& [id, offer] : offers_) {
      if (offer.asked) continue;
      if (offer.until <= now) {
        late.push_back(id);
      } else if (!next || offer.until < *next) {
        next = offer.until;
      }
    }
    for (const std::uint64_t id : late) served(id);
    if (next) expiry_.arm(*next);
  }

  void pulled(std::uint64_t id, Result<void> outcome) {
    // With the client all writing ends, and the room is given up before anybody is told.
    const auto finish = [&] {
      const auto row = pulls_.extract(id);
      return row.mapped().room.finish;
    }();
    if (outcome && finish) outcome = finish();
    PullFinished finished{id, std::nullopt};
    if (!outcome) finished.failure = outcome.error();
    tell(std::move(finished));
  }

  void tell(Event event) {
    untold_.push_back(std::move(event));
    flush();
  }
  void flush() {
    if (!untold_.empty() && !deliver_(untold_)) again_.arm(monotonic_now() + tell_again);
  }

  EventLoop& loop_;
  const DeliverEvents deliver_;
  std::map<std::uint64_t, Offer> offers_;
  std::map<BulkToken, std::uint64_t> tokens_;
  std::map<std::uint64_t, Pull> pulls_;
  std::vector<Event> untold_;  // while the agent's mailbox is full
  Timer expiry_;
  Timer again_;
  BulkServer server_;
};

Result<std::unique_ptr<BulkTransfers>> BulkTransfers::start(EventLoop& loop,
                                                            std::function<void(Event)> tell) {
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  std::unique_ptr<BulkTransfers> self(new BulkTransfers());
  self->thread_ = std::move(*thread);
  auto deliver = deliver_on(loop, std::move(tell), self->alive_);
  const auto made = self->thread_->run(
      [&] { self->desk_ = std::make_unique<Desk>(self->thread_->loop(), std::move(deliver)); });
  if (!made) return made.error();
  return self;
}

BulkTransfers::~BulkTransfers() {
  *alive_ = false;
  (void)thread_->run([this] { desk_.reset(); });
}

void BulkTransfers::on_thread(std::function<void(Desk&)> work) {
  const auto posted = thread_->loop().post([this, work = std::move(work)] { work(*desk_); });
  MOBULA_CHECK(posted.ok(), "the core asks for fewer transfers than the mailbox holds");
}

Result<std::string> BulkTransfers::listen(const std::string& address) {
  Result<std::string> bound = failure(ErrorCode::unavailable, "not tried");
  const auto ran = thread_->run([&] { bound = desk_->listen(address); });
  if (!ran) return ran.error();
  return bound;
}

void BulkTransfers::offer(std::uint64_t offer, std::function<Result<BulkSource>()> open) {
  on_thread([offer, open = std::move(open)](Desk& desk) { desk.offer(offer, open); });
}

void BulkTransfers::withdraw(std::uint64_t offer) {
  on_thread([offer](Desk& desk) { desk.withdraw(offer); });
}

void BulkTransfers::pull(std::uint64_t pull, const AgentAddress& from, const std::string& token,
                         const std::string& key, std::function<Result<BulkRoom>()> open) {
  const auto right = bytes_of<32>(token);
  const auto seal = bytes_of<32>(key);
  BulkTarget target{from.bulk, right.value_or(BulkToken{}), seal};
  const bool sound = right && (seal || key.empty());
  if (!sound) {
    open = [] { return Result<BulkRoom>(failure(ErrorCode::corrupt, "the peer's token is none")); };
  }
  on_thread([pull, target = std::move(target), open = std::move(open)](Desk& desk) {
    desk.pull(pull, target, open);
  });
}

void BulkTransfers::cancel(std::uint64_t pull) {
  on_thread([pull](Desk& desk) { desk.cancel(pull); });
}

}  // namespace mobula::internal::worker
