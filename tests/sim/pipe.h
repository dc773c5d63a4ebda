// One direction of a simulated connection. It delivers in order. A lossy pipe drops what its route
// blocks, loses the messages in flight when it breaks, and may repeat a message.
// Thread: the simulator's only thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "protocol/codec/codec.h"
#include "sim/kernel.h"

namespace mobula::internal::sim {

struct Pipe {
  int from = 0;  // hosts; equal within one machine
  int to = 0;
  bool lossy = false;
  Time last;                 // nothing is delivered before this time
  std::uint64_t breaks = 0;  // number of breaks; messages sent before the latest are lost
};

using PipePointer = std::shared_ptr<Pipe>;  // shared: actions in flight outlive the connection

}  // namespace mobula::internal::sim
