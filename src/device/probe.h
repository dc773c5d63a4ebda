// What a node offers: its machine's facts, the visible lists it was started with and what its user
// asked for, made into resources instance by instance. `probe_machine` does the I/O, once, at the
// agent's start; `node_shape` is pure. Any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/detection.h"
#include "device/host.h"
#include "device/node_devices.h"
#include "model/node_shape.h"

namespace mobula::internal {

struct MachineFacts {
  HostCpus cpus{};
  HostMemory memory{};
  std::map<Vendor, std::vector<AcceleratorDevice>> devices{};  // of vendors that have some
  std::vector<std::string> notes{};  // what could not be found out, for `status`
  std::string nvidia_driver{};       // its version, where it has devices here
  std::string cuda{};                // versions that programs find there; `probe_machine` does not look
  std::string nccl{};

  std::vector<Vendor> vendors() const;
};

struct ProbePaths {
  HostPaths host{};
  DetectionPaths devices{};
};

// Never fails: what cannot be found out is absent, and a note says why.
MachineFacts probe_machine(const ProbePaths& paths = {});

// Whose devices `GPU` means on this node: what was asked for, else the first vendor in the order of
// `Vendor` that has devices, else NVIDIA.
const VendorRow& gpu_vendor(const MachineFacts& machine, const NodeRequest& request);

// invalid_argument: an amount above a visible list ("num_gpus=4, but CUDA_VISIBLE_DEVICES names 2
// devices (0,1)"); a visible list that names a device which the machine lacks; a predefined name among the custom resources, a fraction where instances cannot
// be shared. More GPUs than the machine has are allowed: they are logical, named by their index.
// The labels mobula.io/accelerator-product and -type say what the first device is, unless given;
// mobula.io/nvidia-driver, -cuda and -nccl the versions of NVIDIA's driver and libraries, where devices of it are
// offered and they are known.
Result<NodeShape> node_shape(const MachineFacts& machine, const NodeRequest& request);

}  // namespace mobula::internal
