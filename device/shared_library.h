// A library loaded at run time. Vendor libraries are never linked, so one build runs with and
// without them.
// Owner: the destructor unloads the library; its functions must not be used after that.
// Thread: any for `load`; moves need exclusive access.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace mobula::internal {

class SharedLibrary {
 public:
  // Loads with dlopen's search rules. Fails with not_found and the loader's message.
  static Result<SharedLibrary> open(const std::string& name);

  SharedLibrary(SharedLibrary&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
  SharedLibrary& operator=(SharedLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(name_, other.name_);
    return *this;
  }
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

  // Sets `to` to the function of that name. Fails with not_found, and leaves `to` unchanged, if the
  // library lacks it.
  template <class Function>
  Result<void> load(Function*& to, const char* name) const {
    auto at = address(name);
    if (!at) return at.error();
    to = reinterpret_cast<Function*>(*at);
    return {};
  }
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  Result<void*> address(const char* name) const;

  void* handle_;
  std::string name_;
};

}  // namespace mobula::internal
