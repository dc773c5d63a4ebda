// What an agent says to a process of rings: its doorbell, and pairs of rings with other processes. Plain
// structs; alternatives of AgentToProcess.
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// The process's doorbell for all of its rings. The frame carries its page and its eventfd.
struct UseDoorbell {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const UseDoorbell&, const UseDoorbell&) = default;
};

// A pair of rings with a process of the same job and node, for the calls of one to the other; unasked,
// or the answer to OpenRing. The frame carries the memory of the two and the peer's doorbell: page,
// eventfd. The rings lie one after the other, that of the calls first.
struct RingOpened {
  ProcessId peer;
  bool calls = false;            // this process is the one that calls
  std::uint32_t index = 0;       // in this process's doorbell
  std::uint32_t peer_index = 0;  // in the peer's
  std::uint64_t ring = 0;        // names it to the agent; 0: there will be none, calls go by socket
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("peer", &RingOpened::peer), field("calls", &RingOpened::calls),
                 field("index", &RingOpened::index), field("peer_index", &RingOpened::peer_index),
                 field("ring", &RingOpened::ring));
  }
  friend bool operator==(const RingOpened&, const RingOpened&) = default;
};

// The peer has ended, or has let go: what lies in the rings may be read, then follows RingClosed.
struct RingEnded {
  std::uint64_t ring = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ring", &RingEnded::ring));
  }
  friend bool operator==(const RingEnded&, const RingEnded&) = default;
};

}  // namespace mobula::internal
