#include "device/gpu/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace mobula::internal {
namespace {

// CU_GET_PROC_ADDRESS_DEFAULT, and a query result other than "found".
constexpr unsigned long long default_flags = 0;
constexpr int version_not_sufficient = 2;

}  // namespace

std::string CudaDriver::library_name() {
  const char* const named = std::getenv("MOBULA_CUDA_LIBRARY");
  return named != nullptr && *named != 0 ? named : default_library;
}

Result<std::shared_ptr<const CudaDriver>> CudaDriver::open(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return failure(ErrorCode::not_found, fmt::format("no CUDA driver: cannot load {}: {}", library,
                                                     why == nullptr ? "no reason given" : why));
  }
  auto* const find =
      reinterpret_cast<cuda_abi::GetProcAddress*>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (find == nullptr) {
    return failure(
        ErrorCode::unavailable,
        fmt::format("{} has no cuGetProcAddress_v2: Mobula needs the driver of CUDA 12.0 "
                    "or newer (Linux driver 525)",
                    library));
  }
  std::shared_ptr<CudaDriver> made(new CudaDriver());
  made->library_ = library;
  std::string lacks;
  const auto load = [&]<class Function>(Function*& to, const char* name, int since) {
    void* at = nullptr;
    int found = 0;
    const auto status = find(name, &at, since, default_flags, &found);
    if (status == cuda_abi::success && at != nullptr) {
      to = reinterpret_cast<Function*>(at);
    } else if (lacks.empty()) {
      lacks = fmt::format("{} of CUDA {}.{}{}", name, since / 1000, since % 1000 / 10,
                          found == version_not_sufficient ? ", which is newer than it" : "");
    }
  };
#define MOBULA_LOAD(member, name, since, type) load(made->functions_.member, #name, since);
  MOBULA_CUDA_FUNCTIONS(MOBULA_LOAD)
#undef MOBULA_LOAD
  if (!lacks.empty()) {
    return failure(
        ErrorCode::unavailable,
        fmt::format("the CUDA driver {} has no {}; install a complete driver of CUDA 12.0 "
                    "or newer",
                    library, lacks));
  }
  if (const auto status = made->functions_.driver_version(&made->version_);
      status != cuda_abi::success) {
    return made->error("cuDriverGetVersion", status);
  }
  if (made->version_ < least_version) {
    return failure(ErrorCode::unavailable,
                   fmt::format("the CUDA driver {} is of CUDA {}.{}; Mobula needs 12.0 or newer",
                               library, made->version_ / 1000, made->version_ % 1000 / 10));
  }
  return std::shared_ptr<const CudaDriver>(std::move(made));
}

Failure CudaDriver::error(std::string_view what, cuda_abi::Status status) const {
  const char* name = nullptr;
  if (functions_.error_name(status, &name) != cuda_abi::success || name == nullptr) {
    name = "an unknown error";
  }
  ErrorCode code = ErrorCode::unavailable;
  if (status == cuda_abi::out_of_memory) code = ErrorCode::resource_exhausted;
  if (status == cuda_abi::invalid_value) code = ErrorCode::invalid_argument;
  if (status == cuda_abi::invalid_device || status == cuda_abi::no_device)
    code = ErrorCode::not_found;
  if (status == cuda_abi::not_permitted) code = ErrorCode::permission_denied;
  const bool sticky = is_sticky(status);
  Failure why =
      failure(code, fmt::format("{}: {} ({}){}", what, name, status,
                                sticky ? "; the CUDA context of this process is lost" : ""));
  if (sticky && !lost_.exchange(true) && on_lost_) on_lost_(why.text);
  return why;
}

void CudaDriver::on_lost(std::function<void(const std::string&)> callback) const {
  on_lost_ = std::move(callback);
}

Result<void> CudaDriver::check(std::string_view what, cuda_abi::Status status) const {
  if (status == cuda_abi::success) return {};
  return error(what, status);
}

bool is_sticky(cuda_abi::Status status) {
  // Illegal address, launch timeout, assert, hardware stack, illegal instruction, misaligned
  // address, address space, program counter, launch failure; ECC.
  return status == cuda_abi::illegal_address || status == 702 || status == 710 ||
         (status >= 714 && status <= 719) || status == 214;
}

}  // namespace mobula::internal
