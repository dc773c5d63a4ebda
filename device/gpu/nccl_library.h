// NCCL, loaded at run time: a library that is already in the process (such as one of PyTorch,
// because two would compete for the device), then MOBULA_NCCL_LIBRARY, then the soname. Loading
// starts no thread and uses no GPU. Never unloaded.
// Thread: any; NCCL calls for a device must come from one thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/gpu/nccl_abi.h"

namespace mobula::internal {

struct NcclFunctions {
#define MOBULA_MEMBER(member, name, type) nccl_abi::name##Type* member = nullptr;
  MOBULA_NCCL_FUNCTIONS(MOBULA_MEMBER)
  MOBULA_NCCL_NEWER_FUNCTIONS(MOBULA_MEMBER)
#undef MOBULA_MEMBER
};

class NcclLibrary {
 public:
  static constexpr const char* default_library = "libnccl.so.2";
  // Value of MOBULA_NCCL_LIBRARY, otherwise the default.
  static std::string library_name();
  // Oldest version with non-blocking communicators and the point-to-point calls used here.
  static constexpr int least_version = nccl_abi::version(2, 18, 1);

  // Fails with not_found without the library. Fails with unavailable for an old version, a missing
  // function, or an environment that makes communicators blocking, because such communicators
  // cannot be ended safely.
  static Result<std::shared_ptr<const NcclLibrary>> open(
      const std::string& library = library_name());

  const NcclFunctions& call() const { return functions_; }
  int version() const { return version_; }  // 22809 means 2.28.9
  // True if the library accepts several ranks on one GPU, as the environment was at open().
  bool shares_gpu() const { return shares_gpu_; }
  const std::string& library() const { return library_; }
  Failure error(std::string_view what, nccl_abi::Status status) const;

 private:
  NcclLibrary() = default;
  NcclFunctions functions_;
  int version_ = 0;
  bool shares_gpu_ = false;
  std::string library_;
};

// Text such as "2.28.9".
std::string nccl_version_text(int version);

}  // namespace mobula::internal
