// Non-blocking TCP sockets.
// Thread: any. Only `listen_at` blocks, on name servers.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "transport/net/address.h"

namespace mobula::internal {

// Listens at V4:PORT, [V6]:PORT, or NAME:PORT; port 0 requests any free port. Errors:
// already_exists if the address is in use, not_found if this machine does not have it.
Result<Fd> listen_at(const std::string& address);

// Accepts the next connection. Returns an empty Fd if none is pending. Errors: resource_exhausted
// without descriptors.
Result<Fd> accept_from(const Fd& listener);

// Starts a connection. It is established when the socket is writable and `connect_error` returns 0.
Result<Fd> begin_connect(const SocketAddress& address);
int connect_error(const Fd& socket);

// Bytes written but not yet acknowledged by the kernel of the peer.
std::uint64_t unacknowledged_bytes(const Fd& socket);

}  // namespace mobula::internal
