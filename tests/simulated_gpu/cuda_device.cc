// Basics of the simulated driver: devices that the process sees, contexts, and function lookup.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "simulated_gpu/cuda_state.h"
#include "simulated_gpu/identity.h"
#include "simulated_gpu/settings.h"
#include "simulated_gpu/taken.h"

namespace simulated_gpu {
namespace {

std::atomic<pid_t> initialised{0};

struct Primary {
  int users = 0;
  int fd = -1;
};
struct Tables {
  std::mutex mutex;
  std::map<int, Primary> primaries;
};
Tables& tables() {
  static auto* const made = new Tables;  // leaked: threads of user code may outlive main
  return *made;
}
std::array<std::atomic<abi::Status>, 64> lost_contexts{};

thread_local std::vector<int> current;

// Masks that CUDA knows: ordinals, GPU-…, MIG-…; entries after an invalid one are ignored.
std::vector<Device> visible_devices() {
  std::vector<Device> all;
  for (int i = 0; i < settings().count; ++i) {
    if (!settings().mig.contains(i)) all.push_back({i, -1});
    for (int slice = 0; settings().mig.contains(i) && slice < slices_of_a_device; ++slice)
      all.push_back({i, slice});
  }
  const char* const mask = std::getenv("CUDA_VISIBLE_DEVICES");
  if (mask == nullptr) return all;
  std::vector<Device> seen;
  std::istringstream words(mask);
  for (std::string word; std::getline(words, word, ',');) {
    const Device* found = nullptr;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool named =
          word == std::to_string(i) || word == uuid_text(all[i].machine_index, all[i].slice);
      if (named) found = &all[i];
    }
    if (found == nullptr) break;
    seen.push_back(*found);
  }
  return seen;
}

constexpr int attribute_clock_khz = 13;
constexpr int attribute_multiprocessors = 16;
constexpr int attribute_capability_minor = 76;

// A function that is not an exported symbol.
int unexported() { misuse("a function of MOBULA_SIMULATED_GPU's wraps= is called"); }

bool is_device(int device) { return device >= 0 && device < static_cast<int>(devices().size()); }
const Device& at(int device) { return devices()[static_cast<std::size_t>(device)]; }
abi::Context handle_of(int device) {
  return reinterpret_cast<abi::Context>(static_cast<std::intptr_t>(device + 1));
}
int device_of(abi::Context context) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1;
}

}  // namespace

const std::vector<Device>& devices() {
  static const std::vector<Device> made = visible_devices();
  return made;
}

abi::Status enter(const char* call) {
  const pid_t process = initialised;
  if (process == 0) return abi::not_initialized;
  if (process != ::getpid())
    misuse((std::string(call) + " after fork of a process that had initialized CUDA").c_str());
  const int status = fault_of(call);
  const bool sticky = status == 214 || status == 700 || status == 702 || status == 710 ||
                      (status >= 714 && status <= 719);
  if (sticky && !current.empty()) lose_context(current.back(), status);
  return status;
}

abi::Status enter_context(const char* call) {
  if (const auto status = enter(call)) return status;
  if (current.empty()) return abi::invalid_context;
  return lost(current.back());
}

int current_device() { return current.empty() ? -1 : current.back(); }
void lose_context(int device, abi::Status why) {
  lost_contexts[static_cast<std::size_t>(device)] = why;
}
abi::Status lost(int device) { return lost_contexts[static_cast<std::size_t>(device)]; }

}  // namespace simulated_gpu

using namespace simulated_gpu;

extern "C" {

int simulatedGpuCurrent() { return current_device(); }
int simulatedGpuUnsafeCall() { return unsafe_call(); }
int simulatedGpuLocation(int device) {
  return location_of(at(device).machine_index, at(device).slice);
}
void simulatedGpuBreak(int status) { lose_context(current_device(), status); }

int cuInit(unsigned) {
  if (initialised != 0 && initialised != ::getpid())
    misuse("cuInit after fork of a process that had initialized CUDA");
  initialised = ::getpid();
  if (const int status = fault_of("cuInit")) return status;
  return devices().empty() ? abi::no_device : abi::success;
}

int cuDriverGetVersion(int* version) {
  *version = settings().driver;
  return abi::success;
}

int cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> names{
      {abi::success, "CUDA_SUCCESS"},
      {abi::invalid_value, "CUDA_ERROR_INVALID_VALUE"},
      {abi::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {abi::not_initialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {abi::no_device, "CUDA_ERROR_NO_DEVICE"},
      {abi::invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
      {abi::invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
      {abi::invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
      {abi::not_ready, "CUDA_ERROR_NOT_READY"},
      {abi::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {abi::launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
      {abi::not_permitted, "CUDA_ERROR_NOT_PERMITTED"},
      {abi::not_supported, "CUDA_ERROR_NOT_SUPPORTED"},
      {abi::stream_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {abi::stream_capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {907, "CUDA_ERROR_CAPTURED_EVENT"}};
  const auto found = names.find(status);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? abi::invalid_value : abi::success;
}

int cuDeviceGetCount(int* count) {
  if (const auto status = enter("cuDeviceGetCount")) return status;
  *count = static_cast<int>(devices().size());
  return abi::success;
}

int cuDeviceGet(int* device, int ordinal) {
  if (const auto status = enter("cuDeviceGet")) return status;
  if (!is_device(ordinal)) return abi::invalid_device;
  *device = ordinal;
  return abi::success;
}

int cuDeviceGetName(char* name, int size, int device) {
  if (const auto status = enter("cuDeviceGetName")) return status;
  if (!is_device(device)) return abi::invalid_device;
  std::snprintf(name, static_cast<std::size_t>(size), "%s", device_name);
  return abi::success;
}

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  if (const auto status = enter("cuDeviceGetPCIBusId")) return status;
  if (!is_device(device)) return abi::invalid_device;
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02X:00.0",
                at(device).machine_index + 1);
  return abi::success;
}

int cuDeviceGetUuid_v2(abi::Uuid* uuid, int device) {
  if (const auto status = enter("cuDeviceGetUuid")) return status;
  if (!is_device(device)) return abi::invalid_device;
  std::memcpy(uuid->bytes, uuid_of(at(device).machine_index, at(device).slice).data(), 16);
  return abi::success;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  if (const auto status = enter("cuDeviceTotalMem")) return status;
  if (!is_device(device)) return abi::invalid_device;
  *bytes = memory_at(simulatedGpuLocation(device));
  return abi::success;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (const auto status = enter("cuDeviceGetAttribute")) return status;
  if (!is_device(device)) return abi::invalid_device;
  switch (attribute) {
    case abi::attribute_unified_addressing:
    case abi::attribute_virtual_memory:
    case abi::attribute_posix_fd_handles:
      *value = settings().lacks.contains("vmm") ? 0 : 1;
      return abi::success;
    case abi::attribute_compute_capability_major: *value = 9; return abi::success;
    case attribute_capability_minor: *value = 0; return abi::success;
    case attribute_clock_khz: *value = 1'000'000; return abi::success;
    case attribute_multiprocessors: *value = 4; return abi::success;
    default: return abi::invalid_value;
  }
}

int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  if (const auto status = enter("cuDeviceCanAccessPeer")) return status;
  if (!is_device(device) || !is_device(peer)) return abi::invalid_device;
  const bool sliced = at(device).slice >= 0 || at(peer).slice >= 0;
  const std::pair<int, int> ends{at(device).machine_index, at(peer).machine_index};
  *can = device != peer && !sliced && (settings().all_peers || settings().peers.contains(ends)) ? 1
                                                                                                : 0;
  return abi::success;
}

int cuDevicePrimaryCtxRetain(abi::Context* context, int device) {
  if (const auto status = enter("cuDevicePrimaryCtxRetain")) return status;
  if (!is_device(device)) return abi::invalid_device;
  const std::scoped_lock lock(tables().mutex);
  Primary& primary = tables().primaries[device];
  if (primary.users == 0) {
    primary.fd = take(simulatedGpuLocation(device), Taking::context, settings().context).fd;
    if (primary.fd < 0) return abi::out_of_memory;
  }
  ++primary.users;
  *context = handle_of(device);
  return abi::success;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  if (const auto status = enter("cuDevicePrimaryCtxRelease")) return status;
  const std::scoped_lock lock(tables().mutex);
  Primary& primary = tables().primaries[device];
  if (primary.users == 0) misuse("cuDevicePrimaryCtxRelease of a context that is not retained");
  if (--primary.users == 0) ::close(std::exchange(primary.fd, -1));
  return abi::success;
}

int cuCtxPushCurrent_v2(abi::Context context) {
  if (const auto status = enter("cuCtxPushCurrent")) return status;
  const int device = device_of(context);
  if (!is_device(device)) return abi::invalid_context;
  {
    const std::scoped_lock lock(tables().mutex);
    if (tables().primaries[device].users == 0)
      misuse("cuCtxPushCurrent of a context that was released");
  }
  current.push_back(device);
  return abi::success;
}

int cuCtxPopCurrent_v2(abi::Context* context) {
  if (const auto status = enter("cuCtxPopCurrent")) return status;
  if (current.empty()) return abi::invalid_context;
  *context = handle_of(current.back());
  current.pop_back();
  return abi::success;
}

int cuCtxGetCurrent(abi::Context* context) {
  if (const auto status = enter("cuCtxGetCurrent")) return status;
  *context = current.empty() ? nullptr : handle_of(current.back());
  return abi::success;
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const auto status = enter_context("cuCtxGetStreamPriorityRange")) return status;
  *least = 0;
  *greatest = -5;
  return abi::success;
}

// First forms, which a lookup without a version returns.
#define SIMULATED_FIRST_FORM(name)                                                                \
  int name() {                                                                                    \
    misuse(                                                                                       \
        #name                                                                                     \
        " is the first form of this call, with other types: ask cuGetProcAddress for a version"); \
  }
SIMULATED_FIRST_FORM(cuDeviceGetUuid)
SIMULATED_FIRST_FORM(cuDeviceTotalMem)
SIMULATED_FIRST_FORM(cuDevicePrimaryCtxRelease)
SIMULATED_FIRST_FORM(cuCtxPushCurrent)
SIMULATED_FIRST_FORM(cuCtxPopCurrent)
SIMULATED_FIRST_FORM(cuMemGetInfo)
SIMULATED_FIRST_FORM(cuMemAlloc)
SIMULATED_FIRST_FORM(cuMemFree)
SIMULATED_FIRST_FORM(cuMemcpy2DAsync)
SIMULATED_FIRST_FORM(cuStreamDestroy)
SIMULATED_FIRST_FORM(cuEventDestroy)
SIMULATED_FIRST_FORM(cuIpcOpenMemHandle)
SIMULATED_FIRST_FORM(cuGetProcAddress)
#undef SIMULATED_FIRST_FORM

// Calls are looked up by their plain name; from a given version on, the result is the second form.
int cuGetProcAddress_v2(const char* name, void** to, int version, unsigned long long, int* found) {
  static const std::map<std::string, int> second_forms{{"cuDeviceGetUuid", 11'040},
                                                       {"cuDeviceTotalMem", 3'020},
                                                       {"cuDevicePrimaryCtxRelease", 11'000},
                                                       {"cuCtxPushCurrent", 4'000},
                                                       {"cuCtxPopCurrent", 4'000},
                                                       {"cuMemGetInfo", 3'020},
                                                       {"cuMemAlloc", 3'020},
                                                       {"cuMemFree", 3'020},
                                                       {"cuMemcpy2DAsync", 3'020},
                                                       {"cuStreamDestroy", 4'000},
                                                       {"cuEventDestroy", 4'000},
                                                       {"cuIpcOpenMemHandle", 11'000}};
  *to = nullptr;
  std::string symbol = name;
  const auto second = second_forms.find(symbol);
  if (second != second_forms.end() && version >= second->second) symbol += "_v2";
  Dl_info self{};
  if (::dladdr(reinterpret_cast<void*>(&cuInit), &self) != 0) {
    void* const library = ::dlopen(self.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != nullptr) *to = ::dlsym(library, symbol.c_str());
  }
  if (settings().wraps.contains(name)) *to = reinterpret_cast<void*>(&unexported);
  if (settings().lacks.contains(name)) *to = nullptr;
  const bool too_new = version > settings().driver;
  if (too_new) *to = nullptr;
  if (found != nullptr) *found = *to != nullptr ? 0 : too_new ? 2 : 1;
  return *to != nullptr ? abi::success : abi::not_found;
}

}  // extern "C"
