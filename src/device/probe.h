// What a node offers: its machine's facts, the visible lists it was started with and what its user
// asked for, made into resources instance by instance. `probe_machine` does the I/O, once, at the
// agent's start; `node_shape` is pure. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "device/gpu_probe.h"
#include "device/host.h"
#include "device/neuron.h"
#include "device/visible_list.h"
#include "model/node_shape.h"

namespace mobula::internal {

struct MachineFacts {
  HostCpus cpus{};
  HostMemory memory{};
  GpuFacts gpus{};
  unsigned neuron_cores = 0;
  std::vector<std::string> notes{};  // what could not be found out, for `status`
};

struct ProbePaths {
  HostPaths host{};
  GpuPaths gpus{};
  NeuronPaths neuron{};
};

// Never fails: what cannot be found out is absent, and a note says why.
MachineFacts probe_machine(const ProbePaths& paths = {});

// What was asked for at the start of the node. Without a value: what the machine has.
struct NodeRequest {
  std::optional<Quantity> num_cpus{};
  std::optional<Quantity> num_gpus{};
  std::optional<Quantity> neuron_cores{};
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<std::uint64_t> gpu_memory_bytes{};  // of each device, for requests to book
  std::string accelerator_type{};                   // of every device, in place of what it says
  ResourceSet resources{};                          // custom ones
  Labels labels{};
  VisibleList visible_gpus{};          // CUDA_VISIBLE_DEVICES of the agent
  VisibleList visible_neuron_cores{};  // NEURON_RT_VISIBLE_CORES of the agent
};

// invalid_argument: an amount above a visible list ("num_gpus=4, but CUDA_VISIBLE_DEVICES names 2
// devices (0,1)"), a predefined name among the custom resources, a fraction where instances cannot
// be shared. More GPUs than the machine has are allowed: they are logical, named by their index.
// The labels mobula.io/accelerator-product and -type say what the first device is, unless given.
Result<NodeShape> node_shape(const MachineFacts& machine, const NodeRequest& request);

}  // namespace mobula::internal
