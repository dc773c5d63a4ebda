// Chooses CPUs and network interfaces by their distance to a GPU: CPUs for the threads that serve
// it, and the interface for its tensors.
// Thread: any (pure).
// Not: detection and binding; the caller supplies facts and applies the result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mobula::internal {

// CPU numbers of the operating system, ascending.
using CpuList = std::vector<unsigned>;

// Text such as "0-15,32", as taskset and the kernel write it.
std::string to_text(const CpuList& cpus);

// Distance of an interface from a GPU; smaller is nearer. Only comparisons are meaningful.
enum class Nearness : std::uint8_t { same_switch = 0, same_cpus = 1, elsewhere = 2 };

// Locality facts from hwloc.
struct MachineLocality {
  std::map<std::string, CpuList> cpus_of;  // by PCI bus id, for devices with near CPUs
  // By interface name, then by bus id of a device; only interfaces that are PCI devices.
  std::map<std::string, std::map<std::string, Nearness>> interfaces;
};

// CPUs of `near` that are `allowed`. Empty if there is no choice: nothing is known, none is
// allowed, or all allowed CPUs are near.
CpuList cpus_to_use(const CpuList& near, const CpuList& allowed);

// Set to 1 by an agent without a user-defined listen address: its processes with GPUs then listen
// for tensors on the interface near them. Users can set it, also to 0.
inline constexpr const char* near_interface_variable = "MOBULA_NEAR_INTERFACE";

struct InterfaceFacts {
  std::string name;
  std::string address;  // IPv4 or IPv6, without brackets
  std::uint8_t prefix_bits = 0;
  bool up = false;  // and has a carrier
};

struct InterfaceQuestion {
  std::vector<InterfaceFacts> interfaces;  // one entry per address
  std::string bound;              // current listen address, kept unless another one is nearer
  std::vector<std::string> gpus;  // PCI bus ids
};

// The interface address that is nearest to the GPUs, if it is nearer than the bound one. Candidates
// are PCI devices that are up and on the same network, because peers of the one then reach the
// other. Ties are decided by name.
std::optional<InterfaceFacts> interface_to_use(const MachineLocality& machine,
                                               const InterfaceQuestion& question);

}  // namespace mobula::internal
