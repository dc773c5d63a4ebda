// A place where processes can connect before there is a bus to take them: until then the kernel keeps
// them waiting, and the descriptor is readable when the first has come. Any thread; may ask name
// servers for an address that is not numeric.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal {

struct ListeningSocket {
  Fd socket;            // non-blocking
  std::string address;  // with its real port
};

// Listens at an address or path as Bus::bind takes it. A socket file is replaced if nobody answers
// there, is for this user alone, and stays when the socket is closed. already_exists where another
// process listens.
Result<ListeningSocket> listen_early(const std::string& address);

}  // namespace mobula::internal
