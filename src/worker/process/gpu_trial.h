// What an agent finds out about its GPUs when it starts: whether the driver says which process has what of a
// device's memory, and what a context takes. A process of its own makes a context on each, for a moment; the agent
// itself never uses CUDA. Blocks; for the agent's start, before it has threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/isolation.h"
#include "model/node_shape.h"

namespace mobula::internal::worker {

struct GpuTrialOptions {
  std::string nvml_library;
  std::vector<std::string> program;  // that holds a context (gpu/context_trial.h), and its arguments
  Duration within = 30s;             // for all devices together
};

// Of one of the node's GPUs.
struct GpuTrial {
  std::uint32_t device = 0;  // its index on the node
  unsigned nvml_index = 0;
  std::string uuid;
  Detects detects = Detects::none;
  std::optional<std::int64_t> context_bytes{};  // where it could be seen
  std::string note;                             // what could not be found out, and why
};

// In the order of the node's GPUs; slices of devices, logical devices and those of other vendors are left out.
std::vector<GpuTrial> try_gpus(const NodeShape& shape, const GpuTrialOptions& options);

}  // namespace mobula::internal::worker
