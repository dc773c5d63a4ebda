#include "transport/tensor/conformance.h"

#include <filesystem>
#include <sstream>

#include "device/detection/nvml.h"

namespace mobula::internal::direct_test {

std::vector<Way> ways_from(Way first) {
  std::vector<Way> found;
  for (const Way way :
       {Way::inproc, Way::shm, Way::tcp, Way::carried, Way::gloo, Way::ucx, Way::nixl}) {
    const bool there = !is_plugged(way) || std::filesystem::exists(plugin_of(way));
    if (way >= first && there) found.push_back(way);
  }
  if (first == Way::nccl) found.push_back(Way::nccl);
  if (first <= Way::shm) found.push_back(Way::cuda_ipc);  // the other transport without a network
  return found;
}

std::vector<std::string> device_uuids(const SimulatedMachine& machine, const std::string& words) {
  const auto end = machine.run(
      [] {
        const auto nvml = Nvml::open(std::getenv("MOBULA_NVML_LIBRARY"));
        const auto devices = nvml->devices();
        for (const auto& device : *devices) {
          std::fprintf(stderr, "%s\n", device.uuid.c_str());
          for (const auto& slice : device.slices) std::fprintf(stderr, "%s\n", slice.uuid.c_str());
        }
      },
      words);
  EXPECT_TRUE(end.ok) << end.said;
  std::istringstream lines(end.said);
  std::vector<std::string> uuids;
  for (std::string line; std::getline(lines, line);) uuids.push_back(line);
  return uuids;
}

matrix::Column column_of(Way way) {
  switch (way) {
    case Way::inproc: return matrix::Column::inproc;
    case Way::shm: return matrix::Column::shm;
    case Way::tcp: return matrix::Column::tcp;
    case Way::carried: return matrix::Column::carried;
    case Way::gloo: return matrix::Column::gloo;
    case Way::ucx: return matrix::Column::ucx;
    case Way::nixl: return matrix::Column::nixl;
    case Way::cuda_ipc: return matrix::Column::cuda_ipc;
    case Way::nccl: break;
  }
  return matrix::Column::nccl;
}

}  // namespace mobula::internal::direct_test
