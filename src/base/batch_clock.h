// The monotonic clock for who handles many small events that come together: inside a batch it is looked at
// once for some of them. Never goes back. For shells, one thread at a time.
#pragma once

#include "base/time.h"

namespace mobula::internal {

class BatchClock {
 public:
  // Long enough that the look costs nothing beside what it is for, and short enough that nothing is late.
  static constexpr int events_per_look = 16;

  // While this lives, events are a batch.
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
    if (batches_ > 0) left_ = events_per_look - 1;
    return seen_;
  }

 private:
  Time seen_;
  int batches_ = 0;  // that live: one may be inside another
  int left_ = 0;     // events for which what was seen last is good
};

}  // namespace mobula::internal
