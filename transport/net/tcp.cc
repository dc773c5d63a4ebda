#include "transport/net/tcp.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

namespace mobula::internal {
namespace {

constexpr int tcp_backlog = 512;

void set(const Fd& socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket.get(), level, option, &on, sizeof(on));
}

}  // namespace

Result<Fd> listen_at(const std::string& address) {
  const auto where = Address::parse(address);
  if (!where) return where.error();
  const auto numeric = where->resolve();
  if (!numeric) return numeric.error();
  Fd socket(::socket(numeric->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_failure(fmt::format("listen at {}", address), errno);
  // Allows a port with old connections in TIME_WAIT.
  set(socket, SOL_SOCKET, SO_REUSEADDR);
  if (numeric->family() == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(socket.get(), numeric->get(), numeric->size) == 0 &&
      ::listen(socket.get(), tcp_backlog) == 0) {
    return socket;
  }
  if (errno == EADDRINUSE) {
    return failure(
        ErrorCode::already_exists,
        fmt::format("listen at {}: the address is in use; choose another port, or port 0 "
                    "for any free one",
                    address));
  }
  if (errno == EADDRNOTAVAIL) {
    return failure(
        ErrorCode::not_found,
        fmt::format("listen at {}: no network interface of this machine has this address",
                    address));
  }
  return errno_failure(fmt::format("listen at {}", address), errno);
}

Result<Fd> accept_from(const Fd& listener) {
  for (;;) {
    Fd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) {
      set(accepted, IPPROTO_TCP, TCP_NODELAY);
      return accepted;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return accepted;
    return errno_failure("take a connection", errno);
  }
}

Result<Fd> begin_connect(const SocketAddress& address) {
  Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_failure(fmt::format("connect to {}", address.text()), errno);
  set(socket, IPPROTO_TCP, TCP_NODELAY);
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    return errno_failure(fmt::format("connect to {}", address.text()), errno);
  }
  return socket;
}

int connect_error(const Fd& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::uint64_t unacknowledged_bytes(const Fd& socket) {
  int count = 0;
  return ::ioctl(socket.get(), SIOCOUTQ, &count) == 0 && count > 0
             ? static_cast<std::uint64_t>(count)
             : 0;
}

}  // namespace mobula::internal
