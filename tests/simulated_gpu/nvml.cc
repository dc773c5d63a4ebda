// Simulated management library: the GPUs of the simulated driver, unaffected by masks, and the
// memory use of all processes.
#include <cstring>

#include "device/detection/nvml_abi.h"
#include "simulated_gpu/identity.h"
#include "simulated_gpu/settings.h"
#include "simulated_gpu/taken.h"

namespace {

namespace abi = mobula::internal::nvml_abi;
using namespace simulated_gpu;

bool initialised = false;

// A handle is the number of a device or slice, starting at 1.
constexpr int handles_per_device = 16;
abi::Device handle(int device, int slice) {
  return reinterpret_cast<abi::Device>(
      static_cast<std::intptr_t>(device * handles_per_device + slice + 2));
}
int device_of(abi::Device at) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(at) - 1) / handles_per_device;
}
int slice_of(abi::Device at) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(at) - 1) % handles_per_device - 1;
}

int enter(const char* call) {
  if (!initialised) misuse("NVML is used before nvmlInit_v2");
  return fault_of(call);
}

int copy(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return abi::insufficient_size;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return abi::success;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (const int status = fault_of("nvmlInit_v2")) return status;
  initialised = true;
  return abi::success;
}
int nvmlShutdown() {
  const int status = enter("nvmlShutdown");
  initialised = false;
  return status;
}
const char* nvmlErrorString(int) { return "a simulated failure"; }
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  if (const int status = enter("nvmlSystemGetDriverVersion")) return status;
  return copy("simulated", to, size);
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(settings().count);
  return enter("nvmlDeviceGetCount_v2");
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, abi::Device* to) {
  if (index >= static_cast<unsigned>(settings().count)) return abi::invalid_argument;
  *to = handle(static_cast<int>(index), -1);
  return enter("nvmlDeviceGetHandleByIndex_v2");
}
int nvmlDeviceGetName(abi::Device, char* to, unsigned size) {
  if (const int status = enter("nvmlDeviceGetName")) return status;
  return copy(device_name, to, size);
}
int nvmlDeviceGetUUID(abi::Device device, char* to, unsigned size) {
  if (const int status = enter("nvmlDeviceGetUUID")) return status;
  return copy(uuid_text(device_of(device), slice_of(device)), to, size);
}
int nvmlDeviceGetMemoryInfo(abi::Device device, abi::Memory* memory) {
  if (const int status = enter("nvmlDeviceGetMemoryInfo")) return status;
  const int location = location_of(device_of(device), slice_of(device));
  memory->total = memory_at(location);
  memory->used = taken_bytes(location);
  // The use of a device includes that of its slices.
  for (int slice = 0; !is_slice(location) && slice < slices_of_a_device; ++slice) {
    memory->used += taken_bytes(location_of(device_of(device), slice));
  }
  memory->free = memory->used > memory->total ? 0 : memory->total - memory->used;
  return abi::success;
}
// A device with memory in use runs a kernel half of the time.
int nvmlDeviceGetUtilizationRates(abi::Device device, abi::Utilization* rates) {
  if (const int status = enter("nvmlDeviceGetUtilizationRates")) return status;
  if (slice_of(device) >= 0) return abi::not_supported;
  *rates = {taken_bytes(location_of(device_of(device), -1)) > 0 ? 50u : 0u, 0u};
  return abi::success;
}
int nvmlDeviceGetPciInfo_v3(abi::Device device, abi::PciInfo* pci) {
  if (const int status = enter("nvmlDeviceGetPciInfo_v3")) return status;
  char text[32];
  std::snprintf(text, sizeof text, "00000000:%02X:00.0", device_of(device) + 1);
  return copy(text, pci->bus_id, sizeof pci->bus_id);
}
int nvmlDeviceGetMigMode(abi::Device device, unsigned* now, unsigned* pending) {
  *now = *pending = settings().mig.contains(device_of(device)) ? 1 : 0;
  return enter("nvmlDeviceGetMigMode");
}
int nvmlDeviceGetMaxMigDeviceCount(abi::Device, unsigned* count) {
  *count = slices_of_a_device;
  return enter("nvmlDeviceGetMaxMigDeviceCount");
}
int nvmlDeviceGetMigDeviceHandleByIndex(abi::Device device, unsigned index, abi::Device* to) {
  if (index >= slices_of_a_device) return abi::not_found;
  *to = handle(device_of(device), static_cast<int>(index));
  return enter("nvmlDeviceGetMigDeviceHandleByIndex");
}
int nvmlDeviceGetComputeRunningProcesses_v3(abi::Device device, unsigned* count, abi::Process* to) {
  if (const int status = enter("nvmlDeviceGetComputeRunningProcesses_v3")) return status;
  const int location = location_of(device_of(device), slice_of(device));
  auto all = takers(location);
  for (int slice = 0; !is_slice(location) && slice < slices_of_a_device; ++slice) {
    const auto there = takers(location_of(device_of(device), slice));
    all.insert(all.end(), there.begin(), there.end());
  }
  if (settings().hides_processes) all.clear();
  const unsigned space = *count;
  *count = static_cast<unsigned>(all.size());
  if (space < all.size()) return abi::insufficient_size;
  for (std::size_t i = 0; i < all.size(); ++i) {
    to[i] = {static_cast<unsigned>(all[i].process), all[i].bytes, abi::no_instance,
             abi::no_instance};
  }
  return abi::success;
}
int nvmlDeviceGetP2PStatus(abi::Device a, abi::Device b, int, int* to) {
  if (const int status = enter("nvmlDeviceGetP2PStatus")) return status;
  const std::pair<int, int> ends{device_of(a), device_of(b)};
  const bool reaches =
      ends.first != ends.second && (settings().all_peers || settings().peers.contains(ends));
  *to = reaches ? abi::p2p_ok : abi::p2p_not_supported;
  return abi::success;
}

}  // extern "C"
