// NCCL, opened at run time. One that the process has already is taken (PyTorch's, say: two in one process
// would fight for the device), then what MOBULA_NCCL_LIBRARY names, then the soname. Opening starts no
// thread and touches no GPU. Never unloaded. Any thread; the calls themselves are for one thread a device.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/nccl_abi.h"

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
  // MOBULA_NCCL_LIBRARY, else the default.
  static std::string library_name();
  // Communicators that do not block, and the p2p calls as they are used here.
  static constexpr int least_version = nccl_abi::version(2, 18, 1);

  // not_found without the library; unavailable for one that is too old, lacks a function, or where the
  // environment has made communicators blocking, so that none could be ended safely.
  static Result<std::shared_ptr<const NcclLibrary>> open(
      const std::string& library = library_name());

  const NcclFunctions& call() const { return functions_; }
  int version() const { return version_; }  // 22809: 2.28.9
  const std::string& library() const { return library_; }
  Failure error(std::string_view what, nccl_abi::Status status) const;

 private:
  NcclLibrary() = default;
  NcclFunctions functions_;
  int version_ = 0;
  std::string library_;
};

// "2.28.9"
std::string nccl_version_text(int version);

}  // namespace mobula::internal
