// The handshake of a driver with the agent of its machine, with errors that name what the listener
// did: no listener, no reply, a closed connection, or a reply of another program.
// Thread: any; blocks.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::runtime {

struct AgentGreeting {
  Fd socket;
  DriverAttached attached;
};

// Connects to the agent's socket at `path` and attaches. The reply is due within `timeout`.
Result<AgentGreeting> greet_agent(const std::string& path, const AttachDriver& attach,
                                  Duration timeout);

}  // namespace mobula::internal::runtime
