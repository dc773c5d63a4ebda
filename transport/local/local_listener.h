// Accepts connections of processes of this user at a unix socket of mode 0600, in a directory of
// mode 0700.
// Thread: the event loop. open() and connect_local() wait for no peer, so the start of a process or
// its loop may call them.
// Not: frames.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

// Longest path that fits into the address of a unix socket, in bytes.
inline constexpr std::size_t max_socket_path = 107;
// Errors: invalid_argument, with path, length, and limit.
Result<void> check_socket_path(const std::string& path);

class LocalListener {
 public:
  using Accepted = std::function<void(Fd socket)>;

  // Listens at `path`. Creates its directory, but no parents. Errors: already_exists if another
  // process listens there; permission_denied if the directory belongs to another user or grants
  // rights to others.
  static Result<std::unique_ptr<LocalListener>> open(EventLoop& loop, std::string path,
                                                     Accepted accepted);
  // Closes, and removes the socket file if this listener created it.
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  const std::string& path() const { return path_; }

 private:
  LocalListener(EventLoop& loop, std::string path, Accepted accepted);
  void accept_all();

  const std::string path_;
  // Shared with the call in progress, so that the call may destroy the listener.
  std::shared_ptr<const Accepted> accepted_;
  Fd socket_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  Watch watch_;
  Timer retry_;  // backoff after this process ran out of descriptors
};

// Connects without waiting. Errors: not_found if no socket file exists, unavailable if no process
// listens there, timed_out if the queue of the listener is full (retry), permission_denied if the
// listener belongs to another user.
Result<Fd> connect_local(const std::string& path);

}  // namespace mobula::internal
