// The term in AgentFrame::slots_digest of a slot that is to end: it is there until it is gone.
#pragma once

#include "protocol/node_facts.h"

namespace mobula::internal {

inline std::uint64_t ending_slot_digest(SlotId slot) {
  return derive_bits(slot.bits(), "ending", 0).low;
}

}  // namespace mobula::internal
