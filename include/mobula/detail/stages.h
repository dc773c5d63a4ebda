// The times at which the latest call passed each stage in this process, for `mobula bench
// --profile`. Off until requested; then one clock reading per stage.
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mobula::detail {

enum class Stage : std::uint8_t {
  submitted,  // driver: user code made the call
  written,    // driver: the call is encoded
  sent,       // driver: the call is in the ring, and a sleeping reader is woken
  arrived,    // executor: read from the ring, not decoded
  started,    // executor: before user code runs
  ended,      // executor: user code returned
  answered,   // executor: the reply is in the ring
  received,   // driver: read from the ring, not decoded
};
inline constexpr std::size_t stage_count = 8;

class Stages {
 public:
  void record() { recording_.store(true, std::memory_order_relaxed); }
  void pass(Stage stage) {
    if (recording_.load(std::memory_order_relaxed)) note(stage);
  }
  // Returns nanoseconds of the monotonic clock, equal in all processes of a machine; 0: not passed.
  std::int64_t last(Stage stage) const {
    return passed_[static_cast<std::size_t>(stage)].load(std::memory_order_relaxed);
  }

 private:
  void note(Stage stage);

  std::atomic<bool> recording_{false};
  std::array<std::atomic<std::int64_t>, stage_count> passed_{};
};

// Returns the stages of this process.
Stages& stages();

}  // namespace mobula::detail
