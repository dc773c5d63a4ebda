// What a part of a GPU leaves for tensors: the part includes the executor's own context and what NCCL takes
// for communicators. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "base/quantity.h"
#include "base/result.h"

namespace mobula::internal {

struct GpuShareTerms {
  Quantity fraction = Quantity::whole(1);
  std::uint64_t usable_bytes = 0;        // of the whole device, after the node's reserve
  std::uint64_t context_bytes = 0;       // as measured in this process
  std::uint64_t communicator_bytes = 0;  // kept back for NCCL
};

// Less is no share that a program could do anything with.
inline constexpr std::uint64_t least_tensor_bytes = 16u << 20;

// floor(fraction × usable) − context − communicators. invalid_argument below the least, with the numbers.
Result<std::uint64_t> tensor_bytes_of(const GpuShareTerms& terms);

}  // namespace mobula::internal
