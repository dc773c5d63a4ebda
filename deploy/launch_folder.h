// A temporary directory of one launch on this machine, for keys and state. The destructor removes
// it.
// Thread: owner.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace mobula::internal::deploy {

class LaunchFolder {
 public:
  // Creates it below TMPDIR, else /tmp, for this user only.
  static Result<LaunchFolder> make();
  LaunchFolder(LaunchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LaunchFolder& operator=(LaunchFolder&&) = delete;
  LaunchFolder(const LaunchFolder&) = delete;
  // Killed processes may have children that still write while they exit. Removal is retried for
  // five seconds; then stderr names the rest.
  ~LaunchFolder();
  const std::string& path() const { return path_; }

 private:
  explicit LaunchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace mobula::internal::deploy
