// A folder of one launch on this machine, for keys and state, gone with it. A value.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace mobula::internal::deploy {

class LaunchFolder {
 public:
  // Below TMPDIR, else /tmp; of this user alone.
  static Result<LaunchFolder> make();
  LaunchFolder(LaunchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LaunchFolder& operator=(LaunchFolder&&) = delete;
  LaunchFolder(const LaunchFolder&) = delete;
  // Who was killed here may still have children that end, and write until they do: it is tried for five seconds,
  // and what is left then is named on stderr.
  ~LaunchFolder();
  const std::string& path() const { return path_; }

 private:
  explicit LaunchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace mobula::internal::deploy
