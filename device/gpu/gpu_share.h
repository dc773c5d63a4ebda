// Bytes that a fraction of a GPU leaves for tensors, after the CUDA context of the executor and the
// buffers of NCCL.
// Thread: any (pure).
#pragma once

#include <cstdint>

#include "base/quantity.h"
#include "base/result.h"

namespace mobula::internal {

struct GpuShareTerms {
  Quantity fraction = Quantity::whole(1);
  std::uint64_t usable_bytes = 0;        // whole device without the node's reserve
  std::uint64_t context_bytes = 0;       // as measured in this process
  std::uint64_t communicator_bytes = 0;  // reserved for NCCL
};

// Smallest useful share.
inline constexpr std::uint64_t least_tensor_bytes = 16u << 20;

// floor(fraction × usable) − context − communicators. Fails with invalid_argument, and the numbers,
// below the minimum.
Result<std::uint64_t> tensor_bytes_of(const GpuShareTerms& terms);

}  // namespace mobula::internal
