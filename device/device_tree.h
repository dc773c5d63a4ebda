// Devices as the kernel presents them in files: PCI functions in /sys/bus/pci, numbered nodes in
// /dev. The roots are parameters for tests.
// Thread: any. Reads files on each call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

struct PciFunction {
  std::string bus_id;  // such as "0000:3b:00.0"
  std::uint32_t vendor = 0;
  std::uint32_t device = 0;
  std::uint32_t device_class = 0;  // without the interface byte: 0x0300, 0x0380, …

  friend bool operator==(const PciFunction&, const PciFunction&) = default;
};

// All functions of `vendor` in `sys`/bus/pci/devices, in the order of their bus ids.
std::vector<PciFunction> pci_functions_of(const std::string& sys, std::uint32_t vendor);

// Numbers N of the entries `prefix`N directly in `directory`, ascending. A prefix may be empty.
// Directories count only with `directories_too`.
std::vector<std::uint32_t> numbered_entries(const std::string& directory, std::string_view prefix,
                                            bool directories_too = false);

// Value of the line "`name` value" in a file of such lines, as the kernel's KFD writes them.
std::uint64_t property_in(std::string_view text, std::string_view name);

}  // namespace mobula::internal
