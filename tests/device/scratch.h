// Directory with files for one test, removed at the end.
// Thread: owner.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace mobula::internal {

class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "mobula-device-XXXXXX";
    root_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(root_); }

  std::string path(std::string_view relative = {}) const {
    return relative.empty() ? root_ : root_ + "/" + std::string(relative);
  }
  std::string write(std::string_view relative, std::string_view text) const {
    const std::filesystem::path file = path(relative);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }

 private:
  std::string root_;
};

}  // namespace mobula::internal
