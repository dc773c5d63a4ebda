// Tries whether anybody listens at an address, by a TCP (or unix socket) connection that is closed
// at once: a refusal proves that the process there is gone, silence proves nothing. On an
// EventLoop, for its thread alone; sends no byte.
#pragma once

#include <functional>
#include <memory>

#include "base/fd.h"
#include "transport/address.h"
#include "transport/event_loop.h"

namespace mobula::internal {

enum class ProbeOutcome {
  open,     // somebody listens
  refused,  // the machine answered that nobody does
  silent,   // no answer within the limit, or no way there
};

class PortProbe {
 public:
  // Calls `done` once, from the loop, after at most `limit`; it may destroy the probe. Destroying
  // the probe before ends it without a call.
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
