#include "deploy/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "base/fd.h"

namespace mobula::internal::deploy {
namespace {

constexpr const char* loopback = "127.0.0.1";
constexpr std::size_t max_peers = 4;  // each may cost a name lookup

std::string text_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address, text.data(), text.size()) != nullptr ? text.data() : "";
}

// The source address of a datagram to `peer`; empty without a route or name.
std::string source_towards(const std::string& peer) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(peer.c_str(), "9", &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (!socket || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) return {};
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  return text_of(own.sin_addr);
}

std::string of_an_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(all, &::freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    return text_of(reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr);
  }
  return {};
}

}  // namespace

std::string own_address_facing(const std::vector<std::string>& peers) {
  for (std::size_t i = 0; i < peers.size() && i < max_peers; ++i) {
    const auto source = source_towards(peers[i]);
    if (!source.empty() && !source.starts_with("127.")) return source;
  }
  // Any address outside of local networks selects the default route. No data is sent.
  for (const auto& each : {source_towards("192.0.2.1"), of_an_interface()}) {
    if (!each.empty()) return each;
  }
  return loopback;
}

}  // namespace mobula::internal::deploy
