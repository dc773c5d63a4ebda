// A directory for one test, removed with this object.
// Thread: owner.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace mobula::internal::head {

class ScratchFolder {
 public:
  ScratchFolder() {
    char name[] = "/tmp/mobula-head-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mobula::internal::head
