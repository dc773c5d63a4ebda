// A connection between two processes of one machine. It sends frames of bytes and descriptors over
// a unix stream socket without blocking.
// Thread: the event loop. Not: authentication. The mode of the socket and `credentials_of` decide
// which process may connect.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/local/local_frame.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

struct LocalLinkOptions {
  LocalFrameLimits limits = {};              // for frames in both directions
  std::size_t max_queued_bytes = 64u << 20;  // accepted by send(), not yet by the kernel
};

class LocalLink {
 public:
  struct Callbacks {
    std::function<void(LocalFrame)> on_frame;
    // Called once, after all earlier frames were delivered. `unavailable` if the peer closed or
    // died, `corrupt` if it violated the format. Not called if the owner destroys the link.
    std::function<void(const Failure&)> on_closed;
  };

  // Takes ownership of a connected socket. Callbacks come from the loop, never from within send(),
  // and may destroy the link.
  static Result<std::unique_ptr<LocalLink>> open(EventLoop& loop, Fd socket, Callbacks callbacks,
                                                 LocalLinkOptions options = {});
  // Closes at once and drops queued frames.
  ~LocalLink();
  LocalLink(const LocalLink&) = delete;
  LocalLink& operator=(const LocalLink&) = delete;

  // Sends a whole frame, or queues the part that the kernel does not accept. Takes the descriptors,
  // also on an error. Errors: resource_exhausted if the queue would exceed its limit,
  // invalid_argument for an oversized frame, unavailable after the peer closed.
  Result<void> send(std::span<const std::byte> bytes, std::vector<Fd> fds = {});

  std::size_t queued_bytes() const;

 private:
  class Stream;
  explicit LocalLink(std::shared_ptr<Stream> stream);
  // Shared with the call in progress, so that a callback may destroy the link.
  std::shared_ptr<Stream> stream_;
};

// Returns both ends of a new connection, close-on-exec: one to keep, one for a child to inherit.
Result<std::pair<Fd, Fd>> make_local_pair();

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
// Credentials of the process that connected or created the pair, recorded by the kernel at that
// time.
Result<PeerCredentials> credentials_of(const Fd& socket);

}  // namespace mobula::internal
