// A temporary directory of one launch on this machine, for keys and state. The destructor removes
// it.
// Thread: owner.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace mobula::internal::deploy {

class LaunchDir {
 public:
  // Creates it below TMPDIR, else /tmp, for this user only.
  static Result<LaunchDir> make();
  LaunchDir(LaunchDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LaunchDir& operator=(LaunchDir&&) = delete;
  LaunchDir(const LaunchDir&) = delete;
  // Killed processes may have children that still write while they exit. Removal is retried for
  // five seconds; then stderr names the rest.
  ~LaunchDir();
  const std::string& path() const { return path_; }

 private:
  explicit LaunchDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace mobula::internal::deploy
