// Owns a file descriptor. Move-only; closes in the destructor.
// Thread: owner.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace mobula::internal {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// Raises the descriptor limit of this process to the maximum that the system allows.
void raise_descriptor_limit();
// Returns the number of descriptors that this process may open, at most 1,048,576.
std::size_t descriptor_limit();
// Duplicates the descriptor, close-on-exec.
Result<Fd> copy_of(const Fd& fd);

}  // namespace mobula::internal
