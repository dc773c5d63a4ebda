// The product code of encrypted streams between two members, over a simulated socket that accepts
// and returns any part of the bytes. The test tries all orders of the calls of both ends with all
// such parts. Every byte arrives once and in order, and no end blocks while its peer waits for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tensor/collective/socket_stream.h"

namespace mobula::internal::collective::socket_model {
namespace {

// One direction of a connection: a buffer of the kernel.
struct Buffer {
  static constexpr std::size_t capacity = 9;
  std::deque<std::byte> bytes;
  std::size_t accepted = 0, returned = 0;  // in all
  std::size_t budget = 0;                  // bytes until the kernel would block
  std::size_t corrupts = 0;                // number of the byte that is changed on the way; 0: none
};

struct BufferSocket {
  Buffer* out;
  Buffer* in;

  Result<std::size_t> send(std::span<const std::byte> from) {
    const std::size_t some =
        std::min({from.size(), Buffer::capacity - out->bytes.size(), out->budget});
    out->budget -= some;
    for (const std::byte each : from.first(some)) {
      const bool changed = ++out->accepted == out->corrupts;
      out->bytes.push_back(changed ? each ^ std::byte{1} : each);
    }
    return some;
  }
  Result<std::size_t> receive(std::span<std::byte> into) {
    const std::size_t some = std::min({into.size(), in->bytes.size(), in->budget});
    in->budget -= some;
    std::copy_n(in->bytes.begin(), some, into.begin());
    in->bytes.erase(in->bytes.begin(), in->bytes.begin() + static_cast<std::ptrdiff_t>(some));
    in->returned += some;
    return some;
  }
  int descriptor() const { return -1; }
};

using Stream = BasicSocketStream<BufferSocket>;

enum class Mistake { none, ignores_decrypted_bytes, ignores_unsent_frame };

constexpr std::size_t message_sizes[] = {2, 3};
constexpr std::size_t total = 5;
constexpr std::size_t buffer_bytes = 2;  // less than a frame, so that a rest is kept

std::byte byte_at(std::size_t number) { return static_cast<std::byte>(10 + number); }

// One history, replayed from its choices.
class History {
 public:
  explicit History(Mistake mistake, std::size_t corrupts = 0) : mistake_(mistake) {
    buffer_.corrupts = corrupts;
  }

  // The possible next steps: an end, with the bytes that the kernel moves before it would block.
  struct Step {
    bool sends = false;
    std::size_t budget = 0;
  };
  std::vector<Step> steps() const {
    std::vector<Step> possible;
    if (!failure_.empty()) return possible;
    for (const bool sends : {true, false}) {
      if (sends ? sender_over() : received_ == total) continue;
      if (sends ? sender_blocked() : receiver_blocked()) continue;
      for (const std::size_t budget : {std::size_t{0}, std::size_t{1}, Buffer::capacity})
        possible.push_back({sends, budget});
    }
    return possible;
  }

  void take(const Step& step) {
    buffer_.budget = step.budget;
    if (step.sends) {
      send();
    } else {
      receive();
    }
  }

  bool over() const { return sender_over() && received_ == total; }
  const std::string& failed() const { return failure_; }
  // Equal keys have equal futures, because content is a function of these numbers.
  std::vector<std::size_t> key() const {
    return {sent_,     buffer_.accepted,        buffer_.returned,
            received_, sender_waits_ ? 1u : 0u, receiver_waits_ ? 1u : 0u};
  }

 private:
  bool sender_over() const { return sent_ == total && sender_.flushed(); }

  // As poll() with the descriptor and events of Member::pause.
  bool sender_blocked() const {
    if (!sender_waits_) return false;
    const bool flushed = mistake_ == Mistake::ignores_unsent_frame || sender_.flushed();
    const bool polls = sent_ < total || !flushed;
    return !polls || (sender_.events(sent_ < total, false) & POLLOUT) == 0 ||
           buffer_.bytes.size() == Buffer::capacity;
  }
  bool receiver_blocked() const { return receiver_waits_ && buffer_.bytes.empty(); }

  void send() {
    std::size_t end = 0;
    for (const std::size_t size : message_sizes) {
      end += size;
      if (sent_ < end) break;
    }
    std::vector<std::byte> message;
    for (std::size_t i = sent_; i < end; ++i) message.push_back(byte_at(i));
    const std::size_t before = buffer_.accepted;
    const auto some = sender_.send(message);
    if (!some) return fail(some.error().text);
    sent_ += *some;
    sender_waits_ = *some == 0 && buffer_.accepted == before;
  }

  void receive() {
    std::vector<std::byte> buffer(std::min(buffer_bytes, total - received_));
    const auto some = receiver_.receive(buffer);
    if (!some) return fail(some.error().text);
    for (std::size_t i = 0; i < *some; ++i) {
      if (buffer[i] != byte_at(received_ + i)) fail("another byte than was sent");
    }
    received_ += *some;
    if (*some > 0 && mistake_ != Mistake::ignores_decrypted_bytes) {
      receiver_waits_ = false;
    } else {
      receiver_waits_ =
          mistake_ == Mistake::ignores_decrypted_bytes || !receiver_.prepare_sleep(false, true);
    }
  }

  void fail(std::string why) { failure_ = std::move(why); }

  static WireKeys keys(bool sends) {
    WireKeys keys;
    (sends ? keys.send : keys.receive) = SealKey{};
    return keys;
  }

  const Mistake mistake_;
  Buffer buffer_;
  Stream sender_{BufferSocket{&buffer_, nullptr}, keys(true)};
  Stream receiver_{BufferSocket{nullptr, &buffer_}, keys(false)};
  std::size_t sent_ = 0, received_ = 0;
  bool sender_waits_ = false, receiver_waits_ = false;
  std::string failure_;
};

struct Outcome {
  std::string violation;
  std::size_t states = 0, ends = 0;
};

Outcome explore(Mistake mistake, std::size_t corrupts = 0) {
  Outcome outcome;
  std::set<std::vector<std::size_t>> known;
  std::vector<std::vector<History::Step>> open{{}};
  while (!open.empty()) {
    const auto path = std::move(open.back());
    open.pop_back();
    History history(mistake, corrupts);
    for (const auto& step : path) history.take(step);
    if (!history.failed().empty()) return {history.failed(), known.size(), outcome.ends};
    if (!known.insert(history.key()).second) continue;
    if (history.over()) {
      ++outcome.ends;
      continue;
    }
    const auto steps = history.steps();
    if (steps.empty()) return {"both ends are blocked", known.size(), outcome.ends};
    for (const auto& step : steps) {
      open.push_back(path);
      open.back().push_back(step);
    }
  }
  outcome.states = known.size();
  return outcome;
}

TEST(SocketStreamModel, DeliversEachByteInOrder) {
  const Outcome outcome = explore(Mistake::none);
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.states, 100u);
  EXPECT_GT(outcome.ends, 0u);
  std::cout << outcome.states << " states, " << outcome.ends << " ends\n";
}

TEST(SocketStreamModel, DetectsIgnoredDecryptedBytes) {
  EXPECT_EQ(explore(Mistake::ignores_decrypted_bytes).violation, "both ends are blocked");
}

TEST(SocketStreamModel, DetectsIgnoredUnsentFrame) {
  EXPECT_EQ(explore(Mistake::ignores_unsent_frame).violation, "both ends are blocked");
}

TEST(SocketStreamModel, RejectsChangedByteAnywhere) {
  constexpr std::size_t sent_bytes = total + 2 * (4 + seal_tag_size);
  for (std::size_t byte = 1; byte <= sent_bytes; ++byte)
    EXPECT_NE(explore(Mistake::none, byte).violation, "") << byte;
}

}  // namespace
}  // namespace mobula::internal::collective::socket_model
