// The CUDA driver, opened at run time: every function that Mobula calls, each in the form whose version
// cuda_abi.h names. Opening initialises nothing, so any process may look; what needs a GPU begins with
// GpuContext. Shared by all that call it, and never unloaded, because the driver keeps threads. Any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "gpu/cuda_abi.h"

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
  // MOBULA_CUDA_LIBRARY, else the default.
  static std::string library_name();
  // The oldest driver whose calls are all here: CUDA 12.0's.
  static constexpr int least_version = 12'000;

  // not_found without the library; unavailable for one that is too old or lacks a function, named.
  static Result<std::shared_ptr<const CudaDriver>> open(
      const std::string& library = library_name());

  const CudaFunctions& call() const { return functions_; }
  int version() const { return version_; }  // 13000: 13.0
  const std::string& library() const { return library_; }

  // "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)", with the code nearest to it.
  Failure error(std::string_view what, cuda_abi::Status status) const;
  // Told once, by the thread that meets it first, when an error has left the context of this process
  // useless. Set before others call.
  void on_lost(std::function<void(const std::string&)> told) const;
  bool lost() const { return lost_.load(); }
  // Success, or error() of it.
  Result<void> check(std::string_view what, cuda_abi::Status status) const;

 private:
  CudaDriver() = default;
  CudaFunctions functions_;
  int version_ = 0;
  std::string library_;
  mutable std::function<void(const std::string&)> told_lost_;
  mutable std::atomic<bool> lost_ = false;
};

// These errors leave the context useless for good: what lies there is lost, and the process ends.
bool is_sticky(cuda_abi::Status status);

}  // namespace mobula::internal
