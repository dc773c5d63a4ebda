// A library opened at run time: vendor libraries are never linked, so one build runs with and
// without them. Move-only, closes in the destructor: what was looked up must not be used after it.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace mobula::internal {

class SharedLibrary {
 public:
  // dlopen's search rules apply. not_found, with the loader's message.
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

  // Points `to` at the function of that name; not_found, and `to` stays, if the library lacks it.
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
