// The kind of memory that a holder shares with a receiver on the same machine through descriptors,
// and the way a receiver maps it. This is the difference between shm and cuda_ipc.
// Thread: the event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/region.h"
#include "transport/tensor/shm/shared_file.h"

namespace mobula::internal {

struct MappedMedium {
  using Made = std::function<void(Result<std::shared_ptr<const ReadMapping>>)>;

  DirectKind kind = DirectKind::shm;
  std::uint8_t source_kinds = host_kinds;
  std::uint8_t target_kinds = host_kinds;
  // Calls `made` now or later, from the loop, or never if its owner was destroyed.
  std::function<void(Fd descriptor, std::uint64_t size_bytes, Made made)> map;

  bool of_host() const { return source_kinds == host_kinds; }
};

}  // namespace mobula::internal
