#include "device/host_identity.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/logging/log.h"

namespace mobula::internal::exchange {
namespace {

std::string link_target(const char* path) {
  std::array<char, 64> target;
  const ssize_t size = ::readlink(path, target.data(), target.size());
  return size <= 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string memory = link_target("/proc/self/ns/ipc");
  const std::string processes = link_target("/proc/self/ns/pid");
  const std::string names = link_target("/proc/self/ns/mnt");
  if (boot.empty() || memory.empty() || processes.empty() || names.empty()) return {};
  return boot + " " + memory + " " + processes + " " + names;
}

Duration idle_of_environment(Duration otherwise) {
  const char* const said = std::getenv(idle_variable);
  if (said == nullptr) return otherwise;
  std::uint32_t seconds = 0;
  const char* const end = said + std::strlen(said);
  const auto read = std::from_chars(said, end, seconds);
  constexpr std::uint32_t most_seconds = 7 * 24 * 3600;
  if (read.ec == std::errc() && read.ptr == end && seconds <= most_seconds)
    return std::chrono::seconds(seconds);
  log_warn("{}={} is not a number of seconds up to {}: {} s are taken", idle_variable, said,
           most_seconds, otherwise / 1s);
  return otherwise;
}

std::string separate_host(NodeId node) {
  const char* const said = std::getenv(separate_hosts_variable);
  return said != nullptr && std::string_view(said) == "1" ? node.hex() : std::string();
}

bool may_choose_interface() {
  const char* const said = std::getenv(near_interface_variable);
  return said != nullptr && std::string_view(said) == "1";
}

std::vector<InterfaceFacts> interfaces_here() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::vector<InterfaceFacts> found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_netmask == nullptr) continue;
    const bool up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_RUNNING) != 0;
    InterfaceFacts facts{each->ifa_name, {}, 0, up};
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (each->ifa_addr->sa_family == AF_INET) {
      const auto& address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
      const auto& mask = reinterpret_cast<const sockaddr_in*>(each->ifa_netmask)->sin_addr;
      facts.prefix_bits = static_cast<std::uint8_t>(std::popcount(mask.s_addr));
      ::inet_ntop(AF_INET, &address, text.data(), text.size());
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
      const auto& mask = reinterpret_cast<const sockaddr_in6*>(each->ifa_netmask)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      for (const std::uint8_t byte : mask.s6_addr)
        facts.prefix_bits += static_cast<std::uint8_t>(std::popcount(byte));
      ::inet_ntop(AF_INET6, &address, text.data(), text.size());
    } else {
      continue;
    }
    facts.address = text.data();
    found.push_back(std::move(facts));
  }
  ::freeifaddrs(all);
  return found;
}

std::string near_address(const std::string& bound, const MachineLocality& machine,
                         const std::vector<std::string>& bus_ids) {
  const auto colon = bound.rfind(':');
  if (colon == std::string::npos) return bound;
  std::string host = bound.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const auto near =
      interface_to_use(machine, {.interfaces = interfaces_here(), .bound = host, .gpus = bus_ids});
  if (!near) return bound;
  const bool is_v6 = near->address.find(':') != std::string::npos;
  return (is_v6 ? "[" + near->address + "]" : near->address) + bound.substr(colon);
}

}  // namespace mobula::internal::exchange
