// One direction of a simulated connection. What it delivers it delivers in order; a lossy one drops
// what its way does not let through, loses what is in flight when it breaks, and may repeat a message.
// One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "protocol/codec.h"
#include "sim/kernel.h"

namespace mobula::internal::sim {

struct Pipe {
  int from = 0;            // hosts; equal: within one machine
  int to = 0;
  bool lossy = false;
  Time last;               // nothing is delivered before this
  std::uint64_t breaks = 0;  // what was sent before the latest one does not arrive
};

using PipePointer = std::shared_ptr<Pipe>;  // actions in flight outlive the connection

}  // namespace mobula::internal::sim
