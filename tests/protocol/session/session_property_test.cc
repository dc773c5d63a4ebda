// Two sides over a link that loses, repeats, delays, and breaks, by a seed: every message is
// received once and in order, and after the link recovers both sides become silent.
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "protocol/session/session.h"

namespace mobula::internal::test::property {
namespace {

using Side = Session<std::uint64_t, std::uint64_t>;
using Frames = std::vector<Frame<std::uint64_t>>;

class Pair {
 public:
  explicit Pair(std::uint64_t seed)
      : random_(seed),
        options_{.window = 1 + random_.below(20)},
        sides_{Side(options_), Side(options_)} {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    lossy_ = false;
    settle();
  }

 private:
  void step() {
    const int from = static_cast<int>(random_.below(2));
    Frames frames;
    switch (random_.below(8)) {
      case 0: sides_[from].reconnected(now_, frames); break;
      case 1: sides_[from].tick(now_, frames); break;
      case 2: now_ = now_ + random_.between(Duration(0), Duration(2s)); break;
      case 3:
      case 4: sides_[from].send(now_, submitted_[from]++, frames); break;
      default: deliver(); break;
    }
    leave(from, frames);
  }

  void leave(int from, const Frames& frames) {
    for (const auto& frame : frames) {
      ASSERT_LE(frame.sequence, sides_[from].acknowledged() + options_.window);
      if (lossy_ && random_.chance(200)) continue;
      for (int copies = lossy_ && random_.chance(150) ? 2 : 1; copies > 0; --copies) {
        const Duration delay =
            lossy_ ? random_.between(Duration(0), Duration(800ms)) : Duration(1ms);
        under_way_.emplace(std::pair(now_ + delay, order_++), std::pair(1 - from, frame));
      }
    }
  }

  void deliver() {
    if (under_way_.empty()) return;
    const auto first = under_way_.begin();
    now_ = std::max(now_, first->first.first);
    const auto [to, frame] = first->second;
    under_way_.erase(first);
    Frames frames;
    if (const auto message = sides_[to].receive(now_, frame, frames)) {
      ASSERT_EQ(*message, taken_[to]++);
    }
    leave(to, frames);
  }

  void settle() {
    for (int rounds = 0; rounds < 100'000; ++rounds) {
      if (!under_way_.empty()) {
        deliver();
        continue;
      }
      bool quiet = true;
      for (int side = 0; side < 2; ++side) {
        const auto deadline = sides_[side].next_deadline();
        if (!deadline) continue;
        quiet = false;
        now_ = std::max(now_, *deadline);
        Frames frames;
        sides_[side].tick(now_, frames);
        leave(side, frames);
      }
      if (quiet) break;
    }
    for (int side = 0; side < 2; ++side) {
      EXPECT_EQ(taken_[side], submitted_[1 - side]);
      EXPECT_TRUE(sides_[side].drained());
      EXPECT_EQ(sides_[side].next_deadline(), std::nullopt);
    }
  }

  Random random_;
  SessionOptions options_;
  Side sides_[2];
  std::uint64_t submitted_[2] = {0, 0};
  std::uint64_t taken_[2] = {0, 0};
  std::map<std::pair<Time, std::uint64_t>, std::pair<int, Frame<std::uint64_t>>> under_way_;
  std::uint64_t order_ = 0;
  Time now_;
  bool lossy_ = true;
};

TEST(SessionProperty, DeliversEveryMessageOnceInOrder) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair(seed).run(600);
    if (HasFatalFailure() || HasNonfatalFailure()) break;
  }
}

}  // namespace
}  // namespace mobula::internal::test::property
