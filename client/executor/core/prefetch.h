// Budget for prefetching tensors of queued calls: it bounds tensors that have arrived and are not
// in use. The first queued call of each caller is always admitted, because its later calls wait for
// it.
// Thread: owner.
#pragma once

#include <cstdint>

#include "base/containers/block_pool.h"
#include "base/id.h"

namespace mobula::internal::executor {

class PrefetchBudget {
 public:
  explicit PrefetchBudget(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // A call with arguments to fetch is queued. Tokens are in order of arrival.
  void waits(std::uint64_t token, ProcessId caller);
  // True if `bytes` for the call may be pulled now, and on every later call.
  bool may_pull(std::uint64_t token, std::uint64_t bytes);
  // The call runs, so its tensors are in use, or it never will.
  void begun(std::uint64_t token);

 private:
  struct Waiting {
    ProcessId caller;
    std::uint64_t bytes = 0;
    bool pulled = false;
  };
  bool is_first(std::uint64_t token, ProcessId caller) const;

  const std::uint64_t max_bytes_;
  std::uint64_t ahead_ = 0;
  PooledMap<std::uint64_t, Waiting> waiting_;
};

}  // namespace mobula::internal::executor
