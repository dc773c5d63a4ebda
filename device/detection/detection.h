// Detects the devices of each vendor on this machine, through the vendor's library, program, or
// driver files (`model/accelerator_vendor.h` lists the vendors).
// Thread: any. Called at agent start; starts programs and reads files.
// Not: masks and resource amounts.
#pragma once

#include <string>
#include <vector>

#include "base/model/accelerator_vendor.h"
#include "device/detection/accelerator_device.h"
#include "device/detection/gpu_probe.h"
#include "device/detection/neuron.h"

namespace mobula::internal {

struct DetectionPaths {
  GpuPaths nvidia{};
  NeuronPaths neuron{};
  std::string dev = "/dev";
  std::string sys = "/sys";
  std::string hl_smi = "/usr/bin/hl-smi";
  Duration hl_smi_timeout = 10s;
  std::string topology_xml{};  // see numa_nodes_of
  std::string tpu_type{};      // TPU_ACCELERATOR_TYPE as GKE sets it: "v5litepod-16"
};

struct Detected {
  std::vector<AcceleratorDevice> devices{};  // in the index order of the vendor's mask
  std::vector<std::string> notes{};  // facts that could not be determined, and ignored devices
  std::string driver{};              // driver version; empty: unknown
};

// Empty for vendors without detection; their devices are declared with --resources.
Detected detect_devices(Vendor vendor, const DetectionPaths& paths = {});

}  // namespace mobula::internal
