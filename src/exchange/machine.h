// What processes that can share memory have in common. Any thread; asks the system.
#pragma once

#include <string>

namespace mobula::internal::exchange {

// This boot of this machine, and the namespaces in which files in memory and processes are known. Empty
// where the system does not say: such a process shares with nobody.
std::string machine_identity();

}  // namespace mobula::internal::exchange
