// Finds the process that listens at a TCP port of this machine, from /proc. For a process of
// another user, /proc shows only the user.
// Thread: any, except an event loop, because it reads many files. Meant for error messages.
#pragma once

#include <cstdint>
#include <string>

namespace mobula::internal {

// Returns "process 4711 (nginx)" or "a process of user 33". Empty if no process listens or /proc
// does not show it.
std::string listener_at(std::uint16_t port);

}  // namespace mobula::internal
