// The CUDA driver, loaded at run time, with each function in the version that `cuda_abi.h` names.
// Loading initializes nothing, so any process may do it. The library is never unloaded, because the
// driver keeps threads.
// Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "device/gpu/cuda_abi.h"

namespace mobula::internal {

struct CudaFunctions {
#define MOBULA_MEMBER(member, name, since, type) \
  cuda_abi::Pointer<cuda_abi::name##Type> member = nullptr;
  MOBULA_CUDA_FUNCTIONS(MOBULA_MEMBER)
#undef MOBULA_MEMBER
};

class CudaDriver {
 public:
  static constexpr const char* default_library = "libcuda.so.1";
  // Value of MOBULA_CUDA_LIBRARY, otherwise the default.
  static std::string library_name();
  // Oldest driver with all of these functions: CUDA 12.0.
  static constexpr int least_version = 12'000;

  // Fails with not_found without the library, and with unavailable for an old driver or a missing
  // function.
  static Result<std::shared_ptr<const CudaDriver>> open(
      const std::string& library = library_name());

  const CudaFunctions& call() const { return functions_; }
  int version() const { return version_; }  // 13000 means 13.0
  const std::string& library() const { return library_; }

  // Text such as "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)", with the closest error code.
  Failure error(std::string_view what, cuda_abi::Status status) const;
  // Sets the callback for the first error that makes the context of this process unusable. It runs
  // once, on the thread that sees the error. Must be set before other calls.
  void on_lost(std::function<void(const std::string&)> callback) const;
  bool lost() const { return lost_.load(); }
  // Success, or `error` of the status.
  Result<void> check(std::string_view what, cuda_abi::Status status) const;

 private:
  CudaDriver() = default;
  CudaFunctions functions_;
  int version_ = 0;
  std::string library_;
  mutable std::function<void(const std::string&)> on_lost_;
  mutable std::atomic<bool> lost_ = false;
};

// True for errors after which the context is permanently unusable: its memory is lost, and the
// process must end.
bool is_sticky(cuda_abi::Status status);

}  // namespace mobula::internal
