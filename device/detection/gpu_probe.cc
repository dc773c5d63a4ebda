#include "device/detection/gpu_probe.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/result.h"
#include "device/cgroup.h"
#include "device/detection/nvml.h"
#include "device/detection/pci.h"
#include "device/link_groups.h"

namespace mobula::internal {
namespace {

Result<GpuFacts> read_nvml(const std::string& library) {
  auto nvml = Nvml::open(library);
  if (!nvml) return nvml.error();
  auto devices = nvml->devices();
  if (!devices) return devices.error();
  GpuFacts facts{.source = GpuSource::nvml};
  if (auto version = nvml->driver_version()) facts.driver_version = *version;
  const auto groups = link_groups(*devices);
  for (std::size_t i = 0; i < devices->size(); ++i) {
    NvmlDevice& device = (*devices)[i];
    // In MIG mode the device itself runs nothing, even without slices.
    for (MigSlice& slice : device.slices) {
      facts.devices.push_back({.product = std::move(slice.name),
                               .uuid = slice.uuid,
                               .pci_bus_id = device.pci_bus_id,
                               .memory_bytes = slice.memory_bytes,
                               .slice = true,
                               .id = slice.uuid,
                               .board = std::to_string(device.index)});
    }
    if (device.mig_mode) continue;
    facts.devices.push_back({.product = std::move(device.name),
                             .uuid = std::move(device.uuid),
                             .pci_bus_id = std::move(device.pci_bus_id),
                             .memory_bytes = device.memory_bytes,
                             .id = std::to_string(device.index),
                             .link_group = groups[i]});
  }
  return facts;
}

// Value of a line such as "Model: \t\t NVIDIA H100".
std::string value_of(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key) || line.size() == key.size() || line[key.size()] != ':') continue;
    const auto first = line.find_first_not_of(" \t", key.size() + 1);
    const auto last = line.find_last_not_of(" \t\r");
    return first == std::string::npos ? std::string() : line.substr(first, last - first + 1);
  }
  return {};
}

std::vector<AcceleratorDevice> read_driver_files(const std::string& proc) {
  std::vector<AcceleratorDevice> devices;
  std::error_code error;
  std::filesystem::directory_iterator directory(proc + "/driver/nvidia/gpus", error);
  if (error) return devices;
  for (const std::filesystem::directory_iterator end; directory != end;
       directory.increment(error)) {
    if (error) break;
    const std::string text = small_file(directory->path() / "information").value_or("");
    devices.push_back({.product = value_of(text, "Model"),
                       .uuid = value_of(text, "GPU UUID"),
                       .pci_bus_id = directory->path().filename()});
  }
  std::ranges::sort(devices, {}, &AcceleratorDevice::pci_bus_id);
  return devices;
}

// In "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar …": the first word that
// begins with a digit and contains a period.
std::string driver_version_in(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.front() >= '0' && word.front() <= '9' && word.find('.') != std::string::npos) {
      return word;
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(GpuSource source) {
  switch (source) {
    case GpuSource::none: return "none";
    case GpuSource::nvml: return "nvml";
    case GpuSource::driver_files: return "driver_files";
    case GpuSource::pci_bus: return "pci_bus";
  }
  return "unknown";
}

GpuFacts probe_gpus(const GpuPaths& paths) {
  auto by_nvml = read_nvml(paths.nvml_library);
  if (by_nvml) return std::move(*by_nvml);
  GpuFacts facts;
  facts.notes.push_back(by_nvml.error().text);

  facts.devices = read_driver_files(paths.proc);
  if (!facts.devices.empty()) {
    facts.source = GpuSource::driver_files;
    facts.driver_version =
        driver_version_in(small_file(paths.proc + "/driver/nvidia/version").value_or(""));
    return facts;
  }
  facts.notes.push_back("no GPU under " + paths.proc + "/driver/nvidia/gpus");

  auto on_bus = nvidia_pci_devices(paths.topology_xml);
  if (!on_bus) {
    facts.notes.push_back(on_bus.error().text);
    return facts;
  }
  for (std::string& bus_id : *on_bus) facts.devices.push_back({.pci_bus_id = std::move(bus_id)});
  if (!facts.devices.empty()) facts.source = GpuSource::pci_bus;
  return facts;
}

GpuPeers probe_gpu_peers(const std::string& nvml_library) {
  GpuPeers peers;
  const auto nvml = Nvml::open(nvml_library);
  if (!nvml) return peers;
  const auto devices = nvml->devices();
  if (!devices) return peers;
  for (const NvmlDevice& each : *devices) {
    for (const NvmlDevice& other : *devices) {
      if (each.index == other.index || each.mig_mode || other.mig_mode) continue;
      const auto reaches = nvml->reaches(each.index, other.index);
      if (reaches && *reaches) peers[each.uuid].push_back(other.uuid);
    }
  }
  return peers;
}

}  // namespace mobula::internal
