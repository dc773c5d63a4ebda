#include "device/detection/nvml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "device/detection/nvml_abi.h"

namespace mobula::internal {
namespace {

// Calls a function that writes a name into a buffer.
template <unsigned size, class Call>
std::string text_from(const Call& call, int& status) {
  std::array<char, size> text{};
  status = call(text.data(), size);
  text.back() = 0;
  return status == nvml_abi::success ? std::string(text.data()) : std::string();
}

// True for properties that a device need not support: an empty result, not an error.
bool unsupported(int status) {
  return status == nvml_abi::not_supported || status == nvml_abi::not_found;
}

}  // namespace

struct Nvml::Functions {
  nvml_abi::Init* init;
  nvml_abi::Shutdown* shutdown;
  nvml_abi::ErrorString* error_string;
  nvml_abi::DriverVersion* driver_version;
  nvml_abi::DeviceCount* device_count;
  nvml_abi::DeviceByIndex* device_by_index;
  nvml_abi::DeviceName* device_name;
  nvml_abi::DeviceUuid* device_uuid;
  nvml_abi::DeviceMemory* device_memory;
  nvml_abi::DevicePci* device_pci;
  // Null in drivers without MIG.
  nvml_abi::MigMode* mig_mode = nullptr;
  nvml_abi::MigCount* mig_count = nullptr;
  nvml_abi::MigByIndex* mig_by_index = nullptr;
  // Null in drivers that cannot distinguish a switch from a GPU (before 470).
  nvml_abi::LinkState* link_state = nullptr;
  nvml_abi::LinkRemoteType* link_remote_type = nullptr;
  nvml_abi::LinkRemotePci* link_remote_pci = nullptr;
  // Null in drivers before 510, and before 384.
  nvml_abi::Processes* processes = nullptr;
  nvml_abi::PeerStatus* peer_status = nullptr;
  nvml_abi::UtilizationRates* utilization = nullptr;
};

std::string Nvml::library_name() {
  const char* const named = std::getenv("MOBULA_NVML_LIBRARY");
  return named == nullptr || *named == '\0' ? default_library : named;
}

Result<Nvml> Nvml::open(const std::string& library_name) {
  auto library = SharedLibrary::open(library_name);
  if (!library) return library.error();
  auto functions = std::make_unique<Functions>();
  Result<void> found;
  const auto load = [&]<class Function>(Function*& to, const char* name) {
    auto loaded = library->load(to, name);
    if (!loaded && found) found = loaded;
  };
  load(functions->init, "nvmlInit_v2");
  load(functions->shutdown, "nvmlShutdown");
  load(functions->error_string, "nvmlErrorString");
  load(functions->driver_version, "nvmlSystemGetDriverVersion");
  load(functions->device_count, "nvmlDeviceGetCount_v2");
  load(functions->device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  load(functions->device_name, "nvmlDeviceGetName");
  load(functions->device_uuid, "nvmlDeviceGetUUID");
  load(functions->device_memory, "nvmlDeviceGetMemoryInfo");
  load(functions->device_pci, "nvmlDeviceGetPciInfo_v3");
  if (!found) return found.error();
  load(functions->mig_mode, "nvmlDeviceGetMigMode");
  load(functions->mig_count, "nvmlDeviceGetMaxMigDeviceCount");
  load(functions->mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex");
  if (!found) functions->mig_mode = nullptr;
  found = Result<void>();
  load(functions->link_state, "nvmlDeviceGetNvLinkState");
  load(functions->link_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
  load(functions->link_remote_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  if (!found) functions->link_state = nullptr;
  load(functions->processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  load(functions->peer_status, "nvmlDeviceGetP2PStatus");
  load(functions->utilization, "nvmlDeviceGetUtilizationRates");

  if (const int status = functions->init(); status != nvml_abi::success) {
    return failure(ErrorCode::unavailable, fmt::format("nvmlInit_v2 of {}: {}", library_name,
                                                       functions->error_string(status)));
  }
  return Nvml(std::move(*library), std::move(functions));
}

Nvml::Nvml(SharedLibrary library, std::unique_ptr<Functions> functions)
    : library_(std::move(library)), functions_(std::move(functions)) {}

Nvml::Nvml(Nvml&& other) noexcept = default;

Nvml::~Nvml() {
  if (functions_ != nullptr) functions_->shutdown();
}

Failure Nvml::error(std::string what, int status) const {
  return failure(ErrorCode::unavailable,
                 fmt::format("{}: {}", what, functions_->error_string(status)));
}

Result<std::string> Nvml::driver_version() const {
  int status = 0;
  auto text = text_from<nvml_abi::version_bytes>(
      [&](char* to, unsigned size) { return functions_->driver_version(to, size); }, status);
  if (status != nvml_abi::success) return error("nvmlSystemGetDriverVersion", status);
  return text;
}

Result<void*> Nvml::handle_of(unsigned index) const {
  nvml_abi::Device handle = nullptr;
  const int status = functions_->device_by_index(index, &handle);
  if (status != nvml_abi::success) return error(fmt::format("GPU {} of NVML", index), status);
  return static_cast<void*>(handle);
}

Result<std::vector<DeviceUser>> Nvml::users(unsigned device) const {
  std::vector<DeviceUser> all;
  if (functions_->processes == nullptr) return all;
  const auto handle = handle_of(device);
  if (!handle) return handle.error();
  // Retries, because processes can start and exit between two calls.
  std::vector<nvml_abi::Process> seen(64);
  int status = nvml_abi::insufficient_size;
  for (int tries = 0; tries < 4 && status == nvml_abi::insufficient_size; ++tries) {
    auto count = static_cast<unsigned>(seen.size());
    status = functions_->processes(static_cast<nvml_abi::Device>(*handle), &count, seen.data());
    seen.resize(status == nvml_abi::insufficient_size ? 2 * std::size_t{count} + 64 : count);
  }
  if (unsupported(status)) return all;
  if (status != nvml_abi::success) {
    return error(fmt::format("the processes of GPU {}", device), status);
  }
  for (const nvml_abi::Process& each : seen) {
    DeviceUser& made = all.emplace_back();
    made.process = each.pid;
    if (each.used_bytes != nvml_abi::unknown_bytes) made.used_bytes = each.used_bytes;
  }
  return all;
}

Result<std::uint64_t> Nvml::used_bytes(unsigned device) const {
  const auto handle = handle_of(device);
  if (!handle) return handle.error();
  nvml_abi::Memory memory{};
  const int status = functions_->device_memory(static_cast<nvml_abi::Device>(*handle), &memory);
  if (status != nvml_abi::success) return error(fmt::format("memory of GPU {}", device), status);
  return std::uint64_t{memory.used};
}

Result<unsigned> Nvml::busy_percent(unsigned device) const {
  const std::string subject = fmt::format("the utilization of GPU {}", device);
  if (functions_->utilization == nullptr)
    return failure(ErrorCode::not_found, subject + ": the library does not report it");
  const auto handle = handle_of(device);
  if (!handle) return handle.error();
  nvml_abi::Utilization rates{};
  const int status = functions_->utilization(static_cast<nvml_abi::Device>(*handle), &rates);
  if (unsupported(status))
    return failure(ErrorCode::not_found, subject + ": the device does not report it");
  if (status != nvml_abi::success) return error(subject, status);
  return std::min(rates.gpu, 100u);
}

Result<bool> Nvml::reaches(unsigned device, unsigned other) const {
  if (device == other) return true;
  if (functions_->peer_status == nullptr) return false;
  const auto from = handle_of(device), to = handle_of(other);
  if (!from) return from.error();
  if (!to) return to.error();
  int said = nvml_abi::p2p_not_supported;
  const int status =
      functions_->peer_status(static_cast<nvml_abi::Device>(*from),
                              static_cast<nvml_abi::Device>(*to), nvml_abi::p2p_read, &said);
  if (unsupported(status)) return false;
  if (status != nvml_abi::success) return error("nvmlDeviceGetP2PStatus", status);
  return said == nvml_abi::p2p_ok;
}

Result<std::vector<NvmlDevice>> Nvml::devices() const {
  unsigned count = 0;
  if (const int status = functions_->device_count(&count); status != nvml_abi::success) {
    return error("nvmlDeviceGetCount_v2", status);
  }
  std::vector<NvmlDevice> all;
  for (unsigned index = 0; index < count; ++index) {
    auto one = device(index);
    if (!one) return one.error();
    all.push_back(std::move(*one));
  }
  return all;
}

Result<NvmlDevice> Nvml::device(unsigned index) const {
  nvml_abi::Device handle = nullptr;
  NvmlDevice found{.index = index};
  int status = functions_->device_by_index(index, &handle);
  if (status == nvml_abi::success) {
    found.name = text_from<nvml_abi::name_bytes>(
        [&](char* to, unsigned size) { return functions_->device_name(handle, to, size); }, status);
  }
  if (status == nvml_abi::success) {
    found.uuid = text_from<nvml_abi::uuid_bytes>(
        [&](char* to, unsigned size) { return functions_->device_uuid(handle, to, size); }, status);
  }
  if (status != nvml_abi::success) return error(fmt::format("GPU {} of NVML", index), status);

  nvml_abi::Memory memory{};
  status = functions_->device_memory(handle, &memory);
  if (status == nvml_abi::success) {
    found.memory_bytes = memory.total;
  } else if (!unsupported(status)) {
    return error(fmt::format("memory of GPU {}", index), status);
  }
  nvml_abi::PciInfo pci{};
  if (functions_->device_pci(handle, &pci) == nvml_abi::success) {
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    found.pci_bus_id = pci.bus_id;
  }
  unsigned current = 0;
  unsigned pending = 0;
  if (functions_->mig_mode == nullptr ||
      functions_->mig_mode(handle, &current, &pending) != nvml_abi::success || current == 0) {
    found.links = links(handle);
    return found;
  }
  found.mig_mode = true;
  auto slices_found = slices(handle);
  if (!slices_found) return slices_found.error();
  found.slices = std::move(*slices_found);
  return found;
}

Result<std::vector<MigSlice>> Nvml::slices(void* device) const {
  const auto parent = static_cast<nvml_abi::Device>(device);
  unsigned most = 0;
  if (const int status = functions_->mig_count(parent, &most); status != nvml_abi::success) {
    return error("nvmlDeviceGetMaxMigDeviceCount", status);
  }
  std::vector<MigSlice> all;
  for (unsigned i = 0; i < most; ++i) {
    nvml_abi::Device handle = nullptr;
    int status = functions_->mig_by_index(parent, i, &handle);
    if (status == nvml_abi::not_found) continue;  // slots may have gaps
    MigSlice slice;
    if (status == nvml_abi::success) {
      slice.uuid = text_from<nvml_abi::uuid_bytes>(
          [&](char* to, unsigned size) { return functions_->device_uuid(handle, to, size); },
          status);
    }
    if (status != nvml_abi::success) return error(fmt::format("MIG device {}", i), status);
    slice.name = text_from<nvml_abi::name_bytes>(
        [&](char* to, unsigned size) { return functions_->device_name(handle, to, size); }, status);
    nvml_abi::Memory memory{};
    if (functions_->device_memory(handle, &memory) == nvml_abi::success) {
      slice.memory_bytes = memory.total;
    }
    all.push_back(std::move(slice));
  }
  return all;
}

NvLinks Nvml::links(void* device) const {
  NvLinks found;
  if (functions_->link_state == nullptr) return found;
  const auto handle = static_cast<nvml_abi::Device>(device);
  for (unsigned link = 0; link < nvml_abi::most_links; ++link) {
    int state = 0;
    const int status = functions_->link_state(handle, link, &state);
    if (status == nvml_abi::invalid_argument) break;  // no further links
    if (status != nvml_abi::success || state != nvml_abi::link_active) continue;
    int type = 0;
    if (functions_->link_remote_type(handle, link, &type) != nvml_abi::success) continue;
    if (type == nvml_abi::link_to_switch) found.to_switch = true;
    nvml_abi::PciInfo pci{};
    if (type != nvml_abi::link_to_gpu ||
        functions_->link_remote_pci(handle, link, &pci) != nvml_abi::success) {
      continue;
    }
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    found.to_gpus.emplace_back(pci.bus_id);
  }
  return found;
}

}  // namespace mobula::internal
