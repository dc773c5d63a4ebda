// A device of any vendor, as detection describes it.
// Thread: any (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::internal {

// An empty string or 0 means that the source does not report the value.
struct AcceleratorDevice {
  // product name of the driver; NVIDIA's accelerator types are derived from it
  std::string product{};
  std::string uuid{};  // "GPU-…", or "MIG-…" for a MIG slice
  std::string pci_bus_id{};
  std::uint64_t memory_bytes = 0;
  bool slice = false;   // part of a device, without a CUDA index
  std::string id{};     // value for the vendor's mask; empty: the position in the list
  std::string board{};  // slices only: index of the device
  // devices of one group are linked directly (NVLink); -1: not linked
  std::int32_t link_group = -1;
  std::int32_t island = -1;          // devices of one island are close to each other; -1: unknown
  std::vector<std::string> types{};  // accelerator types, if not derived from the product

  friend bool operator==(const AcceleratorDevice&, const AcceleratorDevice&) = default;
};

}  // namespace mobula::internal
