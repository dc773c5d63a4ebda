// The address of this machine that other machines of a launch reach. Reads names and routes; sends
// nothing. Any thread.
#pragma once

#include <string>
#include <vector>

namespace mobula::internal::deploy {

// The source of the route to the first of `peers` that has one (names or addresses); else of the
// route out; else an address of an interface that is up; else 127.0.0.1. Never what this machine's
// own name resolves to: on many machines that is a loopback address.
std::string own_address_facing(const std::vector<std::string>& peers);

}  // namespace mobula::internal::deploy
