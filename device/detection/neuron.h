// Counts AWS Neuron cores with the vendor's program.
// Thread: any. Starts a child process and waits for it, at most `timeout`.
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

// Returns 0 if the tools are not installed. Fails with unavailable or timed_out if `neuron-ls` does
// not reply, and with corrupt if its output is not understood.
Result<unsigned> probe_neuron_cores(const NeuronPaths& paths = {});

// Sum of `nc_count` over the devices that `neuron-ls --json-output` lists.
Result<unsigned> neuron_cores_in(std::string_view json);

}  // namespace mobula::internal
