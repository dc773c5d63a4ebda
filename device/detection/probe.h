// Resources that a node offers, derived from the machine, its visible lists, and the user's
// request. `probe_machine` does the I/O once at agent start; `node_shape` is pure.
// Thread: any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/model/node_shape.h"
#include "base/result.h"
#include "device/detection/detection.h"
#include "device/host.h"
#include "device/node_devices.h"

namespace mobula::internal {

struct MachineFacts {
  HostCpus cpus{};
  HostMemory memory{};
  std::map<Vendor, std::vector<AcceleratorDevice>> devices{};  // vendors with devices only
  std::vector<std::string> notes{};  // facts that could not be determined, for `status`
  std::string nvidia_driver{};       // driver version, if the machine has NVIDIA devices
  std::string cuda{};  // library versions that programs find; not set by `probe_machine`
  std::string nccl{};

  std::vector<Vendor> vendors() const;
};

struct ProbePaths {
  HostPaths host{};
  DetectionPaths devices{};
};

// Never fails: a fact that cannot be determined is absent, and a note states the reason.
MachineFacts probe_machine(const ProbePaths& paths = {});

// Vendor of the resource `GPU` on this node: the requested one, otherwise the first in the order of
// `Vendor` with devices, otherwise NVIDIA.
const VendorRow& gpu_vendor(const MachineFacts& machine, const NodeRequest& request);

// Resources of the node. Fails with invalid_argument for an amount above a visible list
// ("num_gpus=4, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)"), or a list with a missing device.
// A predefined name among the custom resources fails, too. So does a fraction of instances that
// cannot be shared.
//
// More GPUs than the machine has are allowed: they are logical and named by their index. Labels
// that no flag sets: mobula.io/accelerator-product and -type describe the first device.
// mobula.io/nvidia-driver, -cuda, and -nccl are the known versions of NVIDIA's driver and
// libraries, if NVIDIA devices are offered.
Result<NodeShape> node_shape(const MachineFacts& machine, const NodeRequest& request);

}  // namespace mobula::internal
