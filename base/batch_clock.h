// A monotonic clock for many small events that arrive together: inside a batch, one reading serves
// up to 16 events. Never decreases. For shells.
// Thread: owner.
#pragma once

#include "base/time.h"

namespace mobula::internal {

class BatchClock {
 public:
  // High enough to make the reading cheap, and low enough that no event is late.
  static constexpr int events_per_reading = 16;

  // Events within the lifetime of this object form a batch.
  class Batch {
   public:
    explicit Batch(BatchClock& clock) : clock_(clock) { ++clock_.batches_; }
    ~Batch() {
      if (--clock_.batches_ == 0) clock_.left_ = 0;
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    BatchClock& clock_;
  };

  Time now() {
    if (left_ > 0) {
      --left_;
      return seen_;
    }
    seen_ = monotonic_now();
    if (batches_ > 0) left_ = events_per_reading - 1;
    return seen_;
  }

 private:
  Time seen_;
  int batches_ = 0;  // live batches, which may be nested
  int left_ = 0;     // events that may still use the last reading
};

}  // namespace mobula::internal
