// Counts AWS Neuron cores by the vendor's own program. For the agent's start; any thread. It starts
// a child process and waits for it, at most as long as `timeout`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

struct NeuronPaths {
  std::string tools = "/opt/aws/neuron/bin";
  Duration timeout = 10s;
};

// 0 if the tools are not installed. unavailable or timed_out if `neuron-ls` does not answer,
// corrupt if its answer is not understood.
Result<unsigned> probe_neuron_cores(const NeuronPaths& paths = {});

// The sum of `nc_count` over the devices that `neuron-ls --json-output` lists.
Result<unsigned> neuron_cores_in(std::string_view json);

}  // namespace mobula::internal
