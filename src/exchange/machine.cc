#include "exchange/machine.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace mobula::internal::exchange {
namespace {

std::string link_target(const char* path) {
  std::array<char, 64> target;
  const ssize_t size = ::readlink(path, target.data(), target.size());
  return size <= 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::string machine_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string memory = link_target("/proc/self/ns/ipc");
  const std::string processes = link_target("/proc/self/ns/pid");
  if (boot.empty() || memory.empty() || processes.empty()) return {};
  return boot + " " + memory + " " + processes;
}

std::string separate_host(NodeId node) {
  const char* const said = std::getenv(separate_hosts_variable);
  return said != nullptr && std::string_view(said) == "1" ? node.hex() : std::string();
}

}  // namespace mobula::internal::exchange
