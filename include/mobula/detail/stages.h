// When the last call passed each stage of its way, in this process: for `mobula bench --profile`, which
// asks driver and executor. Off until asked for, and then one clock reading a stage. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mobula::detail {

enum class Stage : std::uint8_t {
  submitted,  // driver: the call has come in from user code
  written,    // driver: it is encoded
  sent,       // driver: it is in the ring, and who sleeps there is woken
  arrived,    // executor: read from the ring, not decoded
  started,    // executor: about to run user code
  ended,      // executor: user code has returned
  answered,   // executor: the reply is in the ring
  heard,      // driver: read from the ring, not decoded
};
inline constexpr std::size_t stage_count = 8;

class Stages {
 public:
  void record() { recording_.store(true, std::memory_order_relaxed); }
  void pass(Stage stage) {
    if (recording_.load(std::memory_order_relaxed)) note(stage);
  }
  // Nanoseconds of the monotonic clock, which is the same in all processes of a machine; 0: not passed.
  std::int64_t last(Stage stage) const {
    return passed_[static_cast<std::size_t>(stage)].load(std::memory_order_relaxed);
  }

 private:
  void note(Stage stage);

  std::atomic<bool> recording_{false};
  std::array<std::atomic<std::int64_t>, stage_count> passed_{};
};

// Of this process.
Stages& stages();

}  // namespace mobula::detail
