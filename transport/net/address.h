// Addresses of listeners: V4:PORT, [V6]:PORT, NAME:PORT, or the path of a unix socket, which begins
// with '/' or "ipc://".
// Thread: any (value types). Only `resolve` blocks, on name servers.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mobula::internal {

// A numeric address of the socket interface.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  bool loopback() const;  // true if data sent to this address stays on this machine
  // Text form: "127.0.0.1:80", "[::1]:80", or the path.
  std::string text() const;
};

class Address {
 public:
  // Parses an address. A malformed address or an overlong path fails with invalid_argument and the
  // expected form.
  static Result<Address> parse(std::string_view text);

  const std::string& host() const { return host_; }  // without brackets; empty for a path
  std::uint16_t port() const { return port_; }       // 0 requests any free port from a listener
  const std::string& path() const { return path_; }
  bool is_path() const { return !path_.empty(); }
  std::string text() const;

  // Returns the socket address if the host is numeric or the address is a path.
  std::optional<SocketAddress> numeric() const;
  // Resolves the host through name servers if needed. Blocks for seconds, so an event loop must not
  // call it. Takes the first of several addresses in the order of the system. Errors: not_found for
  // an unknown name, unavailable if no name server replied.
  Result<SocketAddress> resolve() const;

 private:
  Address() = default;
  std::string host_;
  std::uint16_t port_ = 0;
  std::string path_;
};

// Return the kernel's address of the local or the remote end of a socket.
Result<SocketAddress> local_address_of(int socket);
Result<SocketAddress> peer_address_of(int socket);

}  // namespace mobula::internal
