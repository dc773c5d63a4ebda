// For which of the calls that wait here tensors may be pulled ahead, so that what has come and lies unused is
// bounded, not only what is on its way. The first call of each caller may always: it, or one that has begun, is
// what the others of that caller wait for, so nothing stands still for want of room. Pure; not thread-safe.
#pragma once

#include <cstdint>

#include "base/id.h"
#include "base/recycled.h"

namespace mobula::internal::executor {

class PullAhead {
 public:
  explicit PullAhead(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // A call with arguments to be fetched waits. Tokens are in the order in which calls came.
  void waits(std::uint64_t token, ProcessId caller);
  // Whether its `bytes` may be pulled now; true from then on.
  bool may_pull(std::uint64_t token, std::uint64_t bytes);
  // It runs: what came is in use. Or it never will.
  void begun(std::uint64_t token);

  std::uint64_t bytes_ahead() const { return ahead_; }

 private:
  struct Waiting {
    ProcessId caller;
    std::uint64_t bytes = 0;
    bool pulled = false;
  };
  bool is_first(std::uint64_t token, ProcessId caller) const;

  const std::uint64_t max_bytes_;
  std::uint64_t ahead_ = 0;
  RecycledMap<std::uint64_t, Waiting> waiting_;
};

}  // namespace mobula::internal::executor
