#include "device/shared_library.h"

#include <dlfcn.h>

namespace mobula::internal {

Result<SharedLibrary> SharedLibrary::open(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return failure(ErrorCode::not_found,
                   "cannot load " + name + ": " + (why == nullptr ? "no reason given" : why));
  }
  return SharedLibrary(handle, name);
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Result<void*> SharedLibrary::address(const char* name) const {
  void* at = ::dlsym(handle_, name);
  if (at == nullptr) return failure(ErrorCode::not_found, name_ + " has no function " + name);
  return at;
}

}  // namespace mobula::internal
