#include "transport/local/local_listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace mobula::internal {
namespace {

constexpr int listen_backlog = 512;
constexpr Duration accept_pause = 100ms;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Opens the private directory of the socket and creates it if needed. The holder of its lock may
// replace the socket.
Result<Fd> private_dir(const std::string& path) {
  std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_failure(fmt::format("make the directory {} of a socket", directory), errno);
  }
  Fd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened)
    return errno_failure(fmt::format("open the directory {} of a socket", directory), errno);
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) {
    return errno_failure(fmt::format("read the state of the directory {} of a socket", directory),
                         errno);
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("listen at {}: its directory must belong to uid {} with mode 0700, and belongs "
                    "to uid {} with mode {:04o}; run chmod 700 {}",
                    path, ::geteuid(), status.st_uid, status.st_mode & 07777, directory));
  }
  if (::flock(opened.get(), LOCK_EX) != 0) {
    return errno_failure(fmt::format("lock the directory {} of a socket", directory), errno);
  }
  return opened;
}

Result<void> remove_stale(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return errno_failure(fmt::format("stat {}", path), errno);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return failure(
        ErrorCode::already_exists,
        fmt::format("listen at {}: there is a file that is not a socket; move it", path));
  }
  const auto answer = connect_local(path);
  if (answer || answer.error().code != ErrorCode::unavailable) {
    return failure(ErrorCode::already_exists,
                   fmt::format("listen at {}: another process listens there", path));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return errno_failure(fmt::format("remove the stale socket {}", path), errno);
  }
  return {};
}

}  // namespace

Result<void> check_socket_path(const std::string& path) {
  if (!path.empty() && path.size() <= max_socket_path && path.find('\0') == std::string::npos) {
    return {};
  }
  return failure(
      ErrorCode::invalid_argument,
      fmt::format(
          "the socket path '{}' has {} bytes and may have 1 to {}; choose a shorter directory",
          path, path.size(), max_socket_path));
}

namespace {

// Another user may have created the directory of the path first.
Result<void> check_peer_user(const Fd& socket, const std::string& path) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return errno_failure(fmt::format("read the user of the process at {}", path), errno);
  }
  if (peer.uid == ::geteuid()) return {};
  return failure(
      ErrorCode::permission_denied,
      fmt::format("connect to {}: process {} there belongs to user {}, and this one to user {}",
                  path, peer.pid, peer.uid, ::geteuid()));
}

}  // namespace

Result<Fd> connect_local(const std::string& path) {
  if (auto good = check_socket_path(path); !good) return good.error();
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_failure("make a local socket", errno);
  const sockaddr_un address = address_of(path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    if (auto own = check_peer_user(socket, path); !own) return own.error();
    return socket;
  }
  const int why = errno;
  if (why == ECONNREFUSED) {
    return failure(ErrorCode::unavailable,
                   fmt::format("connect to {}: the process that listened there has exited", path));
  }
  if (why == EAGAIN) {
    return failure(ErrorCode::timed_out,
                   fmt::format("connect to {}: too many wait there already; try again", path));
  }
  return errno_failure(fmt::format("connect to {}", path), why);
}

LocalListener::LocalListener(EventLoop& loop, std::string path, Accepted accepted)
    : path_(std::move(path)),
      accepted_(std::make_shared<const Accepted>(std::move(accepted))),
      retry_(loop, [this] { watch_.set_interest(Interest::read); }) {}

LocalListener::~LocalListener() {
  struct stat status {};
  const bool ours = socket_ && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
                    status.st_ino == inode_;
  if (ours) ::unlink(path_.c_str());
  watch_.reset();
}

Result<std::unique_ptr<LocalListener>> LocalListener::open(EventLoop& loop, std::string path,
                                                           Accepted accepted) {
  if (auto good = check_socket_path(path); !good) return good.error();
  const auto lock = private_dir(path);
  if (!lock) return lock.error();
  if (auto removed = remove_stale(path); !removed) return removed.error();

  std::unique_ptr<LocalListener> made(
      new LocalListener(loop, std::move(path), std::move(accepted)));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_failure("make a local socket", errno);
  const sockaddr_un address = address_of(made->path_);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return errno_failure(fmt::format("listen at {}", made->path_), errno);
  }
  // No process can have connected before, because the directory is private and listen() follows
  // chmod().
  struct stat status {};
  if (::chmod(made->path_.c_str(), 0600) != 0 || ::lstat(made->path_.c_str(), &status) != 0 ||
      ::listen(socket.get(), listen_backlog) != 0) {
    return errno_failure(fmt::format("listen at {}", made->path_), errno);
  }
  made->device_ = status.st_dev;
  made->inode_ = status.st_ino;
  made->socket_ = std::move(socket);
  LocalListener* const self = made.get();
  auto watch =
      loop.watch(self->socket_.get(), Interest::read, [self](Readiness) { self->accept_all(); });
  if (!watch) return watch.error();
  made->watch_ = std::move(watch).value();
  return made;
}

void LocalListener::accept_all() {
  const std::weak_ptr<const Accepted> alive = accepted_;
  for (int i = 0; i < listen_backlog; ++i) {
    Fd accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // Out of descriptors or memory: the listener stays readable, so an immediate retry would
      // spin.
      watch_.set_interest(Interest::none);
      retry_.arm(monotonic_now() + accept_pause);
      return;
    }
    const auto call = alive.lock();
    (*call)(std::move(accepted));
    if (call.use_count() == 1) return;  // the call destroyed the listener
  }
}

}  // namespace mobula::internal
