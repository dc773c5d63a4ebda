// Which devices of each vendor this machine has: a detection for every row of
// model/accelerator_vendor.h that has one, which asks the vendor's library, program or the files of
// its driver and nothing else. For the agent's start; any thread. Knows nothing of masks or amounts.
#pragma once

#include <string>
#include <vector>

#include "device/accelerator_device.h"
#include "device/gpu_probe.h"
#include "device/neuron.h"
#include "model/accelerator_vendor.h"

namespace mobula::internal {

struct DetectionPaths {
  GpuPaths nvidia{};
  NeuronPaths neuron{};
  std::string dev = "/dev";
  std::string sys = "/sys";
  std::string hl_smi = "/usr/bin/hl-smi";
  Duration hl_smi_timeout = 10s;
  std::string topology_xml{};  // see numa_nodes_of
  std::string tpu_type{};  // TPU_ACCELERATOR_TYPE, as GKE sets it: "v5litepod-16"
};

struct Detected {
  std::vector<AcceleratorDevice> devices{};  // in the order in which the vendor's mask counts
  std::vector<std::string> notes{};          // what could not be found out, or was passed over
  std::string driver{};                      // its version, where that is known
};

// Nothing for vendors without detection: their devices are named with --resources.
Detected detect_devices(Vendor vendor, const DetectionPaths& paths = {});
// Whether detect_devices can find any.
bool has_detection(Vendor vendor);

}  // namespace mobula::internal
