// Tests whether a process listens at an address, through a TCP or unix connection that is closed at
// once. A refused connection proves that the process there has ended. Silence proves nothing. Sends
// no byte.
// Thread: the event loop.
#pragma once

#include <functional>
#include <memory>

#include "base/fd.h"
#include "transport/loop/event_loop.h"
#include "transport/net/address.h"

namespace mobula::internal {

enum class ProbeOutcome {
  open,     // a process listens
  refused,  // the machine replied that no process listens
  silent,   // no reply within the limit, or no route
};

class PortProbe {
 public:
  // Calls `done` once, from the loop, after at most `limit`. `done` may destroy the probe.
  // Destroying the probe earlier ends it without a callback.
  PortProbe(EventLoop& loop, const SocketAddress& address, Duration limit,
            std::function<void(ProbeOutcome)> done);
  PortProbe(const PortProbe&) = delete;
  PortProbe& operator=(const PortProbe&) = delete;

 private:
  void finish(ProbeOutcome outcome);

  std::function<void(ProbeOutcome)> done_;
  Fd socket_;
  ProbeOutcome at_timer_ = ProbeOutcome::silent;
  Timer timer_;
  Watch watch_;
};

}  // namespace mobula::internal
