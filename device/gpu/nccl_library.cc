#include "device/gpu/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/model/nccl_rank.h"

namespace mobula::internal {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string NcclLibrary::library_name() {
  const std::string named = environment("MOBULA_NCCL_LIBRARY");
  return named.empty() ? default_library : named;
}

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::open(const std::string& library) {
  if (environment("NCCL_COMM_BLOCKING") == "1") {
    return failure(
        ErrorCode::unavailable,
        "nccl: NCCL_COMM_BLOCKING=1 makes every communicator blocking, and a blocking one "
        "cannot be ended when its peer dies; unset it");
  }
  std::string name = default_library;
  void* handle = ::dlopen(default_library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) {
    name = library;
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return failure(ErrorCode::not_found, fmt::format("nccl: cannot load {}: {}", library,
                                                     why == nullptr ? "no reason given" : why));
  }
  std::shared_ptr<NcclLibrary> made(new NcclLibrary());
  made->library_ = name;
  std::string lacks;
  const auto load = [&]<class Function>(Function*& to, const char* symbol) {
    to = reinterpret_cast<Function*>(::dlsym(handle, symbol));
    if (to == nullptr && lacks.empty()) lacks = symbol;
  };
#define MOBULA_LOAD(member, symbol, type) load(made->functions_.member, #symbol);
  MOBULA_NCCL_FUNCTIONS(MOBULA_LOAD)
  const std::string missing = lacks;
  MOBULA_NCCL_NEWER_FUNCTIONS(MOBULA_LOAD)
#undef MOBULA_LOAD
  if (!missing.empty()) {
    return failure(ErrorCode::unavailable,
                   fmt::format("nccl: {} has no {}; install NCCL {} or newer", name, missing,
                               nccl_version_text(least_version)));
  }
  if (const auto status = made->functions_.version_of(&made->version_);
      status != nccl_abi::success) {
    return made->error("ncclGetVersion", status);
  }
  if (made->version_ < least_version) {
    return failure(ErrorCode::unavailable, fmt::format("nccl: {} is {}; Mobula needs {} or newer",
                                                       name, nccl_version_text(made->version_),
                                                       nccl_version_text(least_version)));
  }
  made->shares_gpu_ = accepts_shared_gpu(made->version_, std::getenv(nccl_sharing_variable));
  return std::shared_ptr<const NcclLibrary>(std::move(made));
}

Failure NcclLibrary::error(std::string_view what, nccl_abi::Status status) const {
  ErrorCode code = ErrorCode::unavailable;
  if (status == nccl_abi::invalid_argument || status == nccl_abi::invalid_usage) {
    code = ErrorCode::invalid_argument;
  }
  return failure(code,
                 fmt::format("nccl: {}: {} ({})", what, functions_.error_string(status), status));
}

}  // namespace mobula::internal
