// Probes the GPUs at the agent's start: whether the driver reports memory per process, and the size
// of a context. A separate process creates a context on each GPU for a moment; the agent never uses
// CUDA. Blocks.
// Thread: the main thread, before any other thread starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/model/jobs/isolation.h"
#include "base/model/node_shape.h"
#include "base/time.h"

namespace mobula::internal::worker {

struct GpuTrialOptions {
  std::string nvml_library;
  std::vector<std::string> program;  // holds a context (gpu/context_trial.h)
  Duration timeout = 30s;            // timeout for all devices together
};

// The result for one GPU of the node.
struct GpuProbeResult {
  std::uint32_t device = 0;  // index of the device on the node
  unsigned nvml_index = 0;
  std::string uuid;
  Detects detects = Detects::none;
  std::optional<std::int64_t> context_bytes{};  // size of a context; empty: not observable
  std::string note;                             // missing results, with reasons
};

// Results in the order of the node's GPUs. Slices of devices, logical devices, and devices of other
// vendors are skipped.
std::vector<GpuProbeResult> probe_gpus(const NodeShape& shape, const GpuTrialOptions& options);

}  // namespace mobula::internal::worker
