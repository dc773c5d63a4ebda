// Term of an ending slot in AgentFrame::slots_digest. It counts until the slot is gone.
// Thread: any.
#pragma once

#include "protocol/messages/facts/node_facts.h"

namespace mobula::internal {

inline std::uint64_t ending_slot_digest(SlotId slot) {
  return derive_bits(slot.bits(), "ending", 0).low;
}

}  // namespace mobula::internal
