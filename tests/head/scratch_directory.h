// A directory for one test, removed with this object.
// Thread: owner.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace mobula::internal::head {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    char name[] = "/tmp/mobula-head-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mobula::internal::head
