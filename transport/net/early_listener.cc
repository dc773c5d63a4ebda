#include "transport/net/early_listener.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "transport/local/local_listener.h"
#include "transport/net/address.h"
#include "transport/net/tcp.h"

namespace mobula::internal {
namespace {

constexpr int early_backlog = 1024;

// Removes the socket file of an ended process. Fails if another process listens there.
Result<void> remove_left_file(const std::string& path) {
  const auto answer = connect_local(path);
  if (answer || answer.error().code != ErrorCode::unavailable) {
    return failure(ErrorCode::already_exists,
                   fmt::format("listen at {}: another process listens there", path));
  }
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return errno_failure(fmt::format("remove the socket {} of an ended process", path), errno);
}

// No process can connect before listen(), and chmod() excludes other users before it.
Result<ListeningSocket> listen_at_path(const Address& where) {
  const std::string& path = where.path();
  const auto address = where.resolve();
  if (!address) return address.error();
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_failure(fmt::format("listen at {}", path), errno);
  if (::bind(socket.get(), address->get(), address->size) != 0) {
    if (errno != EADDRINUSE) return errno_failure(fmt::format("listen at {}", path), errno);
    if (auto removed = remove_left_file(path); !removed) return removed.error();
    if (::bind(socket.get(), address->get(), address->size) != 0) {
      return errno_failure(fmt::format("listen at {}", path), errno);
    }
  }
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), early_backlog) != 0) {
    return errno_failure(fmt::format("listen at {}", path), errno);
  }
  return ListeningSocket{std::move(socket), path};
}

}  // namespace

Result<ListeningSocket> listen_early(const std::string& address) {
  const auto where = Address::parse(address);
  if (!where) return where.error();
  if (where->is_path()) return listen_at_path(*where);
  auto socket = listen_at(address);
  if (!socket) return socket.error();
  const auto real = local_address_of(socket->get());
  if (!real) return real.error();
  return ListeningSocket{std::move(*socket), real->text()};
}

}  // namespace mobula::internal
