// Chooses the address that a head advertises if it listens at every address of its machine. Decides
// whether nodes that know the address of the previous head reach this one.
// Thread: any. `HostFacts::of_machine` queries the system. It queries name servers only if the
// machine has no route to other networks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::head {

bool is_any_host(const std::string& host);
// Returns "10.0.0.3:80" or "[fd00::3]:80".
std::string with_port(const std::string& host, std::uint16_t port);

// Addresses of this machine: numeric hosts without brackets.
struct HostFacts {
  std::string route_v4;  // local address of the route to other networks; empty: no route
  std::string route_v6;
  // Addresses of its interfaces, without loopback and link-local ones.
  std::vector<std::string> addresses;
  std::function<std::vector<std::string>()> named;  // resolves the host name of the machine

  static HostFacts of_machine();
};

// Returns the host to advertise for a head that listens at every address. The first that exists is
// taken: the address of the route to other networks, an interface address that the host name of the
// machine resolves to, any interface address, loopback. IPv6 addresses count only if `v6` (the head
// listens at "::"), and then the IPv6 route precedes the IPv4 route. The result is never a name,
// because other machines may not resolve it.
std::string advertised_host(const HostFacts& facts, bool v6);

// Bound and advertised address of the previous head.
struct HeadAddresses {
  std::string bound;       // HOST:PORT
  std::string advertised;  // HOST:PORT
};
std::string to_text(const HeadAddresses& addresses);
std::optional<HeadAddresses> addresses_of(const std::string& text);

// Returns whether a peer that connects to the address of the previous head reaches a head that
// listens at `now`. Queries name servers if the advertised host is a name.
bool reached_at(const HeadAddresses& before, const std::string& now);

}  // namespace mobula::internal::head
