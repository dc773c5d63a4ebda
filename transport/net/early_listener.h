// A listening socket that exists before its bus. Until the bus adopts it, the kernel queues the
// connections. The descriptor becomes readable with the first one.
// Thread: any. Blocks on name servers if the address is not numeric.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal {

struct ListeningSocket {
  Fd socket;            // non-blocking
  std::string address;  // with its real port
};

// Listens at an address or path in the form of Bus::bind. Replaces a socket file if no process
// listens there. The file is private to this user and remains after the socket is closed. Errors:
// already_exists if another process listens.
Result<ListeningSocket> listen_early(const std::string& address);

}  // namespace mobula::internal
