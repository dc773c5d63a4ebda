// A device of any vendor as its detection describes it. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::internal {

// Empty or 0: the source does not say.
struct AcceleratorDevice {
  std::string product{};  // as the driver names it; NVIDIA's types are made from it
  std::string uuid{};     // "GPU-…"; of a MIG slice "MIG-…"
  std::string pci_bus_id{};
  std::uint64_t memory_bytes = 0;
  bool slice = false;                // a part of a device: CUDA gives it no index
  std::string id{};                  // what its vendor's mask takes for it; empty: its place
  std::string board{};               // of a slice: the index of the device it is cut from
  std::int32_t link_group = -1;  // devices of one are linked beside the bus (NVLink); -1: to none
  std::int32_t island = -1;          // devices of one island are close to each other; -1: unknown
  std::vector<std::string> types{};  // accelerator types, where not made from the product

  friend bool operator==(const AcceleratorDevice&, const AcceleratorDevice&) = default;
};

}  // namespace mobula::internal
