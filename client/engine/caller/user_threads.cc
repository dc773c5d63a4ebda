#include "client/engine/caller/user_threads.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace mobula::internal::client {
namespace {

// Names that Mobula and libzmq give to their threads.
bool is_internal(const std::string& name) {
  return name.starts_with("mobula-") || name.starts_with("ZMQbg");
}

}  // namespace

bool is_only_user_thread() {
  std::error_code failed;
  std::filesystem::directory_iterator threads("/proc/self/task", failed);
  int others = 0;
  for (; !failed && threads != std::filesystem::directory_iterator(); threads.increment(failed)) {
    std::string name;
    std::getline(std::ifstream(threads->path() / "comm"), name);
    others += is_internal(name) ? 0 : 1;
  }
  return !failed && others == 1;
}

}  // namespace mobula::internal::client
