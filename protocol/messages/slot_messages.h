// Messages about a slot between its start and its end: results that its executor holds, and use of
// device memory above its share. Alternatives of AgentMessage and AgentToProcess.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/resident_results.h"

namespace mobula::internal {

// The executor of the slot becomes idle while it holds results, or that state ends.
struct SlotResident {
  SlotId slot;
  ResidentResults residence;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotResident::slot), field("residence", &SlotResident::residence));
  }
  friend bool operator==(const SlotResident&, const SlotResident&) = default;
};

// A generation of the slot uses more device memory than its share, or no longer does.
// Informational: placement ignores it.
struct SlotShareExceeded {
  SlotId slot;
  std::uint32_t generation = 0;
  bool on = false;
  std::string text;  // human-readable amounts and the reaction
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotShareExceeded::slot),
                 field("generation", &SlotShareExceeded::generation),
                 field("on", &SlotShareExceeded::on), field("text", &SlotShareExceeded::text));
  }
  friend bool operator==(const SlotShareExceeded&, const SlotShareExceeded&) = default;
};

// The executor and its child processes use more device memory than their share. The running call
// ends with this error.
struct OverShare {
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("text", &OverShare::text));
  }
  friend bool operator==(const OverShare&, const OverShare&) = default;
};

}  // namespace mobula::internal
