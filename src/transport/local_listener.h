// The place where processes of one machine find a server: a unix socket of mode 0600 in a folder of
// mode 0700, both of this user. open() and connect_local() are for a process's start or its loop
// (they block for no peer); the listener is for its loop's thread. It does not frame bytes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "transport/event_loop.h"

namespace mobula::internal {

// The longest path that fits into a unix socket's address.
inline constexpr std::size_t max_socket_path = 107;
// Fails with invalid_argument, naming path, length and limit.
Result<void> check_socket_path(const std::string& path);

class LocalListener {
 public:
  using Accepted = std::function<void(Fd socket)>;

  // Listens at `path`, making its folder (not that one's parents) if it lacks. A socket file is
  // replaced only if nobody answers there: already_exists otherwise. permission_denied when the
  // folder belongs to another user or grants others anything.
  static Result<std::unique_ptr<LocalListener>> open(EventLoop& loop, std::string path,
                                                     Accepted accepted);
  // Closes, and removes the socket file if it is still this listener's.
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  const std::string& path() const { return path_; }

 private:
  LocalListener(EventLoop& loop, std::string path, Accepted accepted);
  void accept_all();

  const std::string path_;
  // Shared with the call in progress, so that it may destroy the listener.
  std::shared_ptr<const Accepted> accepted_;
  Fd socket_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  Watch watch_;
  Timer retry_;  // after this process ran out of descriptors
};

// Connects without waiting: not_found without a socket file, unavailable when nobody listens there,
// timed_out when its queue is full (try again), permission_denied if the listener is a process of
// another user.
Result<Fd> connect_local(const std::string& path);

}  // namespace mobula::internal
