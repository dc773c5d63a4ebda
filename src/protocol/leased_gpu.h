// What an executor is told of a GPU of its slot. Plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/quantity.h"

namespace mobula::internal {

// A GPU that a slot was given, or a part of one.
struct LeasedGpu {
  std::string uuid;                 // empty: the node does not know it
  Quantity amount;
  std::int64_t memory_bytes = 0;    // that the program may take; 0: its part of all
  std::int64_t context_bytes = 0;   // what its process's context is counted with
  std::vector<std::string> peers;   // UUIDs of devices of the node whose memory it reaches
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("uuid", &LeasedGpu::uuid), field("amount", &LeasedGpu::amount),
                 field("memory_bytes", &LeasedGpu::memory_bytes),
                 field("context_bytes", &LeasedGpu::context_bytes), field("peers", &LeasedGpu::peers));
  }
  friend bool operator==(const LeasedGpu&, const LeasedGpu&) = default;
};

}  // namespace mobula::internal
