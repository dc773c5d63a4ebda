// Who listens at a TCP port of this machine, as far as /proc tells: of other users' processes it tells the user
// alone. For messages to people. Reads many files; not for a loop.
#pragma once

#include <cstdint>
#include <string>

namespace mobula::internal {

// "process 4711 (nginx)", "a process of user 33"; empty: nobody does, or /proc does not say.
std::string listener_at(std::uint16_t port);

}  // namespace mobula::internal
