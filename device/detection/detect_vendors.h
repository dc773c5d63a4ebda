// Detection functions of all vendors, for the table in `detection.cc`.
// Thread: any.
#pragma once

#include "device/detection/detection.h"

namespace mobula::internal {

// Reads the driver's topology in /sys/class/kfd. Indices are those of HIP without
// ROCR_VISIBLE_DEVICES. A GPU with less than 2 GiB of its own memory is an integrated display unit:
// it is noted, but not a device.
Detected detect_amd(const DetectionPaths& paths);
// Display and 3D controllers on the PCI bus. 0000:00:02.0 is the integrated GPU; it only occupies
// an index, because Level Zero counts it, too.
Detected detect_intel(const DetectionPaths& paths);
Detected detect_nvidia(const DetectionPaths& paths);
Detected detect_neuron(const DetectionPaths& paths);
// Nodes /dev/accelN, otherwise groups in /dev/vfio if the PCI bus has Google functions.
Detected detect_tpu(const DetectionPaths& paths);
// Runs hl-smi. The ids are module ids, as used by HABANA_VISIBLE_MODULES.
Detected detect_gaudi(const DetectionPaths& paths);
Detected detect_ascend(const DetectionPaths& paths);
Detected detect_rebellions(const DetectionPaths& paths);
Detected detect_tenstorrent(const DetectionPaths& paths);
Detected detect_mobilint(const DetectionPaths& paths);
Detected detect_biren(const DetectionPaths& paths);
Detected detect_cambricon(const DetectionPaths& paths);

}  // namespace mobula::internal
