// Finds the address of this machine that other machines of a launch can reach, from names and
// routes.
// Thread: any.
// Not: sending data.
#pragma once

#include <string>
#include <vector>

namespace mobula::internal::deploy {

// Tries in order: the source of the route to the first reachable one of `peers` (names or
// addresses), the source of the default route, an address of an active interface, 127.0.0.1. Never
// resolves the name of this machine, which is a loopback address on many machines.
std::string own_address_facing(const std::vector<std::string>& peers);

}  // namespace mobula::internal::deploy
