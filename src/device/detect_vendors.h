// The detection of each vendor, for the table in detection.cc. Any thread.
#pragma once

#include "device/detection.h"

namespace mobula::internal {

// The driver's topology under /sys/class/kfd. Indices are those of HIP without ROCR_VISIBLE_DEVICES.
// A GPU with less than 2 GiB of its own is a processor's display unit: noted, not a device.
Detected detect_amd(const DetectionPaths& paths);
// Display and 3D controllers on the PCI bus; 0000:00:02.0 is the processor's own and only counted,
// because Level Zero counts it too.
Detected detect_intel(const DetectionPaths& paths);
Detected detect_nvidia(const DetectionPaths& paths);
Detected detect_neuron(const DetectionPaths& paths);
// /dev/accelN, else groups under /dev/vfio where the PCI bus has Google's functions.
Detected detect_tpu(const DetectionPaths& paths);
// hl-smi, by module id, which is what HABANA_VISIBLE_MODULES takes.
Detected detect_gaudi(const DetectionPaths& paths);
Detected detect_ascend(const DetectionPaths& paths);
Detected detect_rebellions(const DetectionPaths& paths);
Detected detect_tenstorrent(const DetectionPaths& paths);
Detected detect_mobilint(const DetectionPaths& paths);
Detected detect_biren(const DetectionPaths& paths);
Detected detect_cambricon(const DetectionPaths& paths);

}  // namespace mobula::internal
