// A link between two processes of one machine: frames of bytes and descriptors over a unix stream
// socket, without blocking, on an EventLoop. For the loop's thread alone. It does not authenticate:
// who may connect is decided by the socket's mode and by `credentials_of`.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/event_loop.h"
#include "transport/local_frame.h"

namespace mobula::internal {

struct LocalLinkOptions {
  LocalFrameLimits limits = {};              // of frames in both directions
  std::size_t max_queued_bytes = 64u << 20;  // written by send() and not yet taken by the kernel
};

class LocalLink {
 public:
  struct Callbacks {
    std::function<void(LocalFrame)> on_frame;
    // Once, after every frame that came before it was delivered: unavailable when the peer closed
    // or died, corrupt when it broke the format. Not called for a link its owner destroys.
    std::function<void(const Failure&)> on_closed;
  };

  // Takes a connected socket over. Callbacks come from the loop, never from within send(); each
  // may destroy the link.
  static Result<std::unique_ptr<LocalLink>> open(EventLoop& loop, Fd socket, Callbacks callbacks,
                                                 LocalLinkOptions options = {});
  // Closes at once; frames still queued are lost.
  ~LocalLink();
  LocalLink(const LocalLink&) = delete;
  LocalLink& operator=(const LocalLink&) = delete;

  // Sends a frame or queues what the kernel does not take. All or nothing: resource_exhausted when
  // the queue would pass its limit, invalid_argument beyond the frame's limits, unavailable once
  // the peer has gone. The descriptors are the link's in every case.
  Result<void> send(std::span<const std::byte> bytes, std::vector<Fd> fds = {});

  std::size_t queued_bytes() const;

 private:
  class Stream;
  explicit LocalLink(std::shared_ptr<Stream> stream);
  // Shared with the call in progress, so that a callback may destroy the link.
  std::shared_ptr<Stream> stream_;
};

// Both ends of a new link, close-on-exec: one to keep, one for a child to inherit.
Result<std::pair<Fd, Fd>> make_local_pair();

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
// Of the process that connected, or that made the pair, as the kernel recorded it then.
Result<PeerCredentials> credentials_of(const Fd& socket);

}  // namespace mobula::internal
