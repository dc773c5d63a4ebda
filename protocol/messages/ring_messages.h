// Messages from an agent to a process about rings: its doorbell, and pairs of rings with other
// processes. Alternatives of AgentToProcess.
// Thread: owner (plain values).
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// The doorbell of the process for all of its rings. The frame carries its page and its eventfd.
struct UseDoorbell {
  MOBULA_FIELDS();
  friend bool operator==(const UseDoorbell&, const UseDoorbell&) = default;
};

// A pair of rings with a process of the same job and node, for calls in one direction. Answers
// OpenRingRequest, or is sent without a request to the called process. The frame carries the memory
// of both rings, the call ring first, and the page and eventfd of the peer's doorbell.
struct OpenRingReply {
  ProcessId peer;
  bool calls = false;            // this process is the caller
  std::uint32_t index = 0;       // index in the doorbell of this process
  std::uint32_t peer_index = 0;  // index in the doorbell of the peer
  std::uint64_t ring = 0;        // id for the agent; 0: no ring is available, calls use a socket
  MOBULA_FIELDS(peer, calls, index, peer_index, ring);
  friend bool operator==(const OpenRingReply&, const OpenRingReply&) = default;
};

// The peer has exited or released the rings. The process may read their remaining data, then sends
// RingClosed.
struct RingEnded {
  std::uint64_t ring = 0;
  MOBULA_FIELDS(ring);
  friend bool operator==(const RingEnded&, const RingEnded&) = default;
};

}  // namespace mobula::internal
