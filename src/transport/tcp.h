// Non-blocking TCP sockets. Any thread; the functions block for no peer, only `listen_at` may ask
// name servers.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "transport/address.h"

namespace mobula::internal {

// Listens at V4:PORT, [V6]:PORT or NAME:PORT; port 0 is any free one. already_exists when the
// address is in use, not_found when it is not this machine's.
Result<Fd> listen_at(const std::string& address);

// The next connection, nothing if none waits, or why none can be taken (resource_exhausted without
// descriptors).
Result<Fd> accept_from(const Fd& listener);

// Begins a connection; it is there when the socket becomes writable and `connect_error` is 0.
Result<Fd> begin_connect(const SocketAddress& address);
int connect_error(const Fd& socket);

// Bytes that were written and that the peer's kernel has not acknowledged yet.
std::uint64_t unacknowledged_bytes(const Fd& socket);

}  // namespace mobula::internal
