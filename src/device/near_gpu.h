// What is chosen because it lies near a GPU: the CPUs on which threads that serve it run, and the network
// interface by which its tensors leave the machine. Pure: who asks says what there is, and applies the answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mobula::internal {

// Of the operating system's CPUs, rising.
using CpuList = std::vector<unsigned>;

// "0-15,32": as taskset and the kernel write it.
std::string to_text(const CpuList& cpus);

// How far an interface is from a GPU; smaller is nearer. Values are compared only.
enum class Nearness : std::uint8_t { same_switch = 0, same_cpus = 1, elsewhere = 2 };

// What hwloc tells of the machine.
struct MachineLocality {
  std::map<std::string, CpuList> cpus_of;  // by PCI bus id, of devices that are near some CPUs
  // By the interface's name, then by the bus id of a device: of interfaces that are PCI devices.
  std::map<std::string, std::map<std::string, Nearness>> interfaces;
};

// The CPUs of `near` that are `allowed`. Empty where there is nothing to choose: nothing is known, none of them
// is allowed, or all that are allowed are near.
CpuList cpus_to_use(const CpuList& near, const CpuList& allowed);

// Set to 1 by an agent whose user has not said at which address its processes listen: those that have GPUs then
// listen for tensors at the interface near them. The user may set it, to 0 as well.
inline constexpr const char* near_interface_variable = "MOBULA_NEAR_INTERFACE";

struct InterfaceFacts {
  std::string name;
  std::string address;  // V4 or V6, without brackets
  std::uint8_t prefix_bits = 0;
  bool up = false;  // and has a carrier
};

struct InterfaceQuestion {
  std::vector<InterfaceFacts> interfaces;  // an entry for each address
  std::string bound;                       // where this process listens unless another is nearer
  std::vector<std::string> gpus;           // bus ids
};

// The entry that is nearest to the GPUs, if one is nearer than the bound address: of a PCI device that is up, on
// the same network, since who reaches the one then reaches the other. Among several of equal distance the first
// by name.
std::optional<InterfaceFacts> interface_to_use(const MachineLocality& machine, const InterfaceQuestion& question);

}  // namespace mobula::internal
