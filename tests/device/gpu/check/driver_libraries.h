// NVML and the CUDA driver by dlopen, as user code calls them.
// Thread: owner. Errors: a status other than 0; -1 if the library or the function is absent.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace mobula::internal::gpu_check {

inline void* library(const char* variable, const char* otherwise) {
  const char* const named = std::getenv(variable);
  return ::dlopen(named == nullptr || *named == 0 ? otherwise : named, RTLD_NOW | RTLD_LOCAL);
}

// The first device of NVML.
class Nvml {
 public:
  Nvml() : library_(library("MOBULA_NVML_LIBRARY", "libnvidia-ml.so.1")) {
    auto* const init = call<int()>("nvmlInit_v2");
    auto* const handle = call<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
    if (init != nullptr && handle != nullptr && init() == 0) (void)handle(0, &device_);
  }
  std::int64_t used_bytes() const {
    struct {
      unsigned long long total, free, used;
    } memory{};
    auto* const info = call<int(void*, void*)>("nvmlDeviceGetMemoryInfo");
    return device_ != nullptr && info != nullptr && info(device_, &memory) == 0
               ? static_cast<std::int64_t>(memory.used)
               : -1;
  }
  std::int64_t total_bytes() const {
    struct {
      unsigned long long total, free, used;
    } memory{};
    auto* const info = call<int(void*, void*)>("nvmlDeviceGetMemoryInfo");
    return device_ != nullptr && info != nullptr && info(device_, &memory) == 0
               ? static_cast<std::int64_t>(memory.total)
               : -1;
  }
  std::string uuid() const {
    char text[96] = {};
    auto* const get = call<int(void*, char*, unsigned)>("nvmlDeviceGetUUID");
    return device_ != nullptr && get != nullptr && get(device_, text, sizeof text) == 0 ? text : "";
  }

 private:
  template <class Function>
  Function* call(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  void* library_;
  void* device_ = nullptr;
};

// The driver as user code calls it.
class Cuda {
 public:
  Cuda() : library_(library("MOBULA_CUDA_LIBRARY", "libcuda.so.1")) {}
  template <class Function>
  Function* call(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  int init() const {
    auto* const function = call<int(unsigned)>("cuInit");
    return function == nullptr ? -1 : function(0);
  }
  int devices() const {
    int count = 0;
    auto* const function = call<int(int*)>("cuDeviceGetCount");
    return function != nullptr && function(&count) == 0 ? count : 0;
  }
  std::string uuid() const {
    unsigned char bytes[16] = {};
    auto* const function = call<int(unsigned char*, int)>("cuDeviceGetUuid_v2");
    if (function == nullptr || function(bytes, 0) != 0) return {};
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
      char two[8];
      std::snprintf(two, sizeof two, "%s%02x",
                    i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
      text += two;
    }
    return text;
  }
  // Makes the primary context current; the status.
  int context() const {
    void* made = nullptr;
    auto* const retain = call<int(void**, int)>("cuDevicePrimaryCtxRetain");
    auto* const push = call<int(void*)>("cuCtxPushCurrent_v2");
    if (retain == nullptr || push == nullptr) return -1;
    const int status = retain(&made, 0);
    return status != 0 ? status : push(made);
  }
  int allocate(std::int64_t bytes, unsigned long long* made = nullptr) const {
    unsigned long long at = 0;
    auto* const function = call<int(unsigned long long*, std::size_t)>("cuMemAlloc_v2");
    const int status = function == nullptr ? -1 : function(&at, static_cast<std::size_t>(bytes));
    if (made != nullptr) *made = at;
    return status;
  }
  // Fills the memory on the device and returns when the fill has ended.
  int fill(unsigned long long at, std::int64_t bytes) const {
    auto* const set =
        call<int(unsigned long long, unsigned char, std::size_t, void*)>("cuMemsetD8Async");
    auto* const wait = call<int()>("cuCtxSynchronize");
    if (set == nullptr || wait == nullptr) return -1;
    const int status = set(at, 1, static_cast<std::size_t>(bytes), nullptr);
    return status != 0 ? status : wait();
  }

 private:
  void* library_;
};

}  // namespace mobula::internal::gpu_check
