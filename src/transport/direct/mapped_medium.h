// What kind of memory a holder and a receiver of one machine share by its descriptors, and how a receiver makes
// use of one: the difference between shm and cuda_ipc. For the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/direct/blob.h"
#include "transport/direct/region.h"
#include "transport/direct/shared_file.h"

namespace mobula::internal {

struct MappedMedium {
  using Made = std::function<void(Result<std::shared_ptr<const ReadMapping>>)>;

  DirectKind kind = DirectKind::shm;
  std::uint8_t source_kinds = host_kinds;
  std::uint8_t target_kinds = host_kinds;
  // Answers at once or later, from the loop, or never once its owner is gone.
  std::function<void(Fd descriptor, std::uint64_t size_bytes, Made made)> map;

  bool of_host() const { return source_kinds == host_kinds; }
};

}  // namespace mobula::internal
