// GPUs that are plugged in, by hwloc: the last resort of detection, without a driver's word. Asks
// the operating system once per call (tens of milliseconds); any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal {

// The PCI bus ids ("0000:3b:00.0"), in order, of NVIDIA's devices of class 0x0300 or 0x0302.
// `topology_xml` is a file that hwloc exported (`lstopo x.xml`); empty: this machine.
Result<std::vector<std::string>> nvidia_pci_devices(const std::string& topology_xml = {});

}  // namespace mobula::internal
