#include "head/advertised_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/fd.h"
#include "transport/net/address.h"

namespace mobula::internal::head {
namespace {

std::string host_of(const SocketAddress& address) {
  const auto parsed = Address::parse(address.text());
  return parsed ? parsed->host() : std::string();
}

SocketAddress copy_of(const sockaddr* address) {
  SocketAddress copy;
  copy.size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::copy_n(reinterpret_cast<const char*>(address), copy.size,
              reinterpret_cast<char*>(&copy.storage));
  return copy;
}

bool of_internet(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

bool link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// connect() on a datagram socket sends nothing: the kernel only selects the local address. The
// targets are documentation networks (RFC 5737, RFC 3849).
std::string route_by(int family) {
  const Fd probe(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto there = Address::parse(family == AF_INET ? "192.0.2.1:9" : "[2001:db8::1]:9");
  const auto numeric = there ? there->numeric() : std::nullopt;
  if (!probe || !numeric || ::connect(probe.get(), numeric->get(), numeric->size) != 0) return {};
  const auto own = local_address_of(probe.get());
  return own && !own->loopback() ? host_of(*own) : std::string();
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (!of_internet(each->ifa_addr) || (each->ifa_flags & IFF_UP) == 0 ||
        (each->ifa_flags & IFF_LOOPBACK) != 0 || link_local(each->ifa_addr)) {
      continue;
    }
    found.push_back(host_of(copy_of(each->ifa_addr)));
  }
  return found;
}

std::vector<std::string> addresses_of_own_name() {
  std::vector<std::string> found;
  char name[256] = {};
  addrinfo* first = nullptr;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  if (::gethostname(name, sizeof name - 1) != 0 ||
      ::getaddrinfo(name, nullptr, &wanted, &first) != 0)
    return found;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    if (of_internet(each->ai_addr)) found.push_back(host_of(copy_of(each->ai_addr)));
  }
  return found;
}

bool is_v6(const std::string& host) { return host.find(':') != std::string::npos; }

std::string same_host_of(const std::string& address) {
  const auto parsed = Address::parse(address);
  if (!parsed) return {};
  const auto resolved = parsed->resolve();
  return resolved ? host_of(*resolved) : parsed->host();
}

}  // namespace

bool is_any_host(const std::string& host) {
  return host == "0.0.0.0" || host == "::" || host == "[::]" || host == "*";
}

std::string with_port(const std::string& host, std::uint16_t port) {
  const bool bare_v6 = is_v6(host) && host.front() != '[';
  return bare_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

HostFacts HostFacts::of_machine() {
  return {route_by(AF_INET), route_by(AF_INET6), interface_addresses(), addresses_of_own_name};
}

std::string advertised_host(const HostFacts& facts, bool v6) {
  const std::string& first = v6 ? facts.route_v6 : facts.route_v4;
  if (!first.empty()) return first;
  if (v6 && !facts.route_v4.empty()) return facts.route_v4;
  const auto fits = [&](const std::string& host) { return v6 || !is_v6(host); };
  const auto own = [&](const std::string& host) {
    return std::ranges::find(facts.addresses, host) != facts.addresses.end();
  };
  for (const auto& host : facts.named ? facts.named() : std::vector<std::string>()) {
    if (fits(host) && own(host)) return host;
  }
  const auto other = std::ranges::find_if(facts.addresses, fits);
  return other != facts.addresses.end() ? *other : v6 ? "::1" : "127.0.0.1";
}

std::string to_text(const HeadAddresses& addresses) {
  return addresses.bound + " " + addresses.advertised + "\n";
}

std::optional<HeadAddresses> addresses_of(const std::string& text) {
  const auto gap = text.find(' ');
  if (gap == std::string::npos) return std::nullopt;
  HeadAddresses addresses{text.substr(0, gap), text.substr(gap + 1)};
  while (!addresses.advertised.empty() && addresses.advertised.back() == '\n')
    addresses.advertised.pop_back();
  if (!Address::parse(addresses.bound) || !Address::parse(addresses.advertised))
    return std::nullopt;
  return addresses;
}

bool reached_at(const HeadAddresses& before, const std::string& now) {
  const auto then = Address::parse(before.bound);
  const auto here = Address::parse(now);
  if (!then || !here) return true;  // no address to compare
  if (then->port() != here->port()) return false;
  if (is_any_host(here->host()) || here->host() == then->host()) return true;
  return same_host_of(before.advertised) == same_host_of(now);
}

}  // namespace mobula::internal::head
