// Metrics of the head's process: its journal, its loop, rejected messages, and its use of the
// machine.
// Thread: owner (the thread of the head's loop).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/time.h"
#include "head/core/view/metrics_writer.h"
#include "head/use_ring.h"

namespace mobula::internal::head {

// Messages that the head dropped or rejected, by reason.
struct RejectedMessages {
  std::uint64_t undecodable = 0;
  std::uint64_t out_of_role = 0;  // including requests beyond the permissions of their key
  std::uint64_t class_use = 0;    // rows of reports of owners
};

class ServiceMetrics {
 public:
  explicit ServiceMetrics(std::int64_t wall_ms) : started_ms_(wall_ms) {}

  void turn(Duration gap) { loop_lag_.add(gap); }
  void commit_began(std::uint64_t batch, Time now) { commits_.emplace(batch, now); }
  // All batches through `upto` are durable, or have failed.
  void committed(std::uint64_t upto, Time now);
  void commit_failed(std::uint64_t upto);

  std::string text(const RejectedMessages& rejected, const UseRingState& ring) const;

 private:
  const std::int64_t started_ms_;
  std::map<std::uint64_t, Time> commits_;
  SpanHistogram commit_seconds_;
  SpanHistogram loop_lag_;
  std::uint64_t commit_failures_ = 0;
};

}  // namespace mobula::internal::head
