// A GPU of a slot, as the agent describes it to the executor.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/quantity.h"

namespace mobula::internal {

// A GPU that was allocated to a slot, or a fraction of one.
struct LeasedGpu {
  std::string uuid;  // empty: unknown to the node
  Quantity amount;
  std::int64_t memory_bytes = 0;   // bytes that the program may use; 0: its fraction of all memory
  std::int64_t context_bytes = 0;  // bytes accounted for the context of its process
  std::vector<std::string> peers;  // UUIDs of devices of the node whose memory it can access
  MOBULA_FIELDS(uuid, amount, memory_bytes, context_bytes, peers);
  friend bool operator==(const LeasedGpu&, const LeasedGpu&) = default;
};

}  // namespace mobula::internal
