// Where a process listens: V4:PORT, [V6]:PORT, NAME:PORT, or the path of a unix socket (it begins
// with '/', or with "ipc://"). Value types; any thread. Only `resolve` may block, on name servers.
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
  bool loopback() const;  // nothing sent there leaves this machine
  // "127.0.0.1:80", "[::1]:80", or the path.
  std::string text() const;
};

class Address {
 public:
  // Fails with invalid_argument, saying what is expected. A path is checked for its length.
  static Result<Address> parse(std::string_view text);

  const std::string& host() const { return host_; }  // without brackets; empty for a path
  std::uint16_t port() const { return port_; }       // 0: any free port, when listening
  const std::string& path() const { return path_; }
  bool is_path() const { return !path_.empty(); }
  std::string text() const;

  // The socket address if no name has to be looked up.
  std::optional<SocketAddress> numeric() const;
  // Asks name servers if need be, for up to seconds: never from a loop. not_found for a name that
  // nobody knows, unavailable when nobody answered. Among several the first in the system's order.
  Result<SocketAddress> resolve() const;

 private:
  Address() = default;
  std::string host_;
  std::uint16_t port_ = 0;
  std::string path_;
};

// What the kernel says about a socket's own end or its peer's.
Result<SocketAddress> local_address_of(int socket);
Result<SocketAddress> peer_address_of(int socket);

}  // namespace mobula::internal
