#include "client/executor/gpu_start.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/logging/log.h"
#include "base/model/nccl_rank.h"
#include "device/host_identity.h"

namespace mobula::internal::executor {
namespace {

bool is_at(const ifaddrs& interface, const std::string& host) {
  if (interface.ifa_addr == nullptr) return false;
  char text[INET6_ADDRSTRLEN] = {};
  const void* at = nullptr;
  if (interface.ifa_addr->sa_family == AF_INET) {
    at = &reinterpret_cast<const sockaddr_in*>(interface.ifa_addr)->sin_addr;
  } else if (interface.ifa_addr->sa_family == AF_INET6) {
    at = &reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr)->sin6_addr;
  }
  if (at == nullptr || ::inet_ntop(interface.ifa_addr->sa_family, at, text, sizeof text) == nullptr)
    return false;
  return host == text;
}

// The interface of the address that a node is bound to, such as "lo" or "eth0". Empty if no
// interface has the address.
std::string interface_of(std::string host) {
  if (host.empty()) return "lo";
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string name;
  for (const ifaddrs* each = all; each != nullptr && name.empty(); each = each->ifa_next) {
    if (is_at(*each, host)) name = each->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

void set_unless_given(const char* name, const std::string& value) {
  if (!value.empty()) ::setenv(name, value.c_str(), 0);
}

PinnedSliceOptions staging_of_environment() {
  PinnedSliceOptions made;
  const char* const said = std::getenv(staging_variable);
  if (said == nullptr) return made;
  std::uint64_t mib = 0;
  const char* const end = said + std::strlen(said);
  const auto read = std::from_chars(said, end, mib);
  constexpr std::uint64_t most_mib = 64 * 1024;
  if (read.ec != std::errc() || read.ptr != end || mib > most_mib) {
    log_warn("{}={} is not a number of MiB up to {}: {} MiB are taken", staging_variable, said,
             most_mib, made.slices * made.slice_bytes >> 20);
    return made;
  }
  made.slices = std::max<std::size_t>((mib << 20) / made.slice_bytes, made.reserved_slices + 1);
  return made;
}

}  // namespace

void set_library_environment(const PrepareExecutor& prepare, const AssignExecutor& assignment) {
  if (assignment.gpus.empty()) return;
  set_unless_given("NCCL_RAS_ENABLE", "0");
  set_unless_given(nccl_sharing_variable, "1");
  const std::string interface = interface_of(prepare.bind_host);
  if (!interface.empty()) set_unless_given("NCCL_SOCKET_IFNAME", "=" + interface);
  set_unless_given("NCCL_HOSTID", exchange::separate_host(assignment.node));
}

std::shared_ptr<exchange::GpuDevices> gpus_of(const AssignExecutor& assignment,
                                              std::function<void(const std::string&)> lost) {
  if (assignment.gpus.empty()) return nullptr;
  std::vector<exchange::GpuTerms> terms;
  for (const LeasedGpu& each : assignment.gpus) {
    exchange::GpuTerms& own = terms.emplace_back();
    own.uuid = each.uuid;
    own.amount = each.amount;
    own.memory_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(each.memory_bytes, 0));
    own.context_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(each.context_bytes, 0));
    own.peers = {each.peers.begin(), each.peers.end()};
  }
  return std::make_shared<exchange::GpuDevices>(std::move(terms), std::move(lost),
                                                staging_of_environment());
}

}  // namespace mobula::internal::executor
