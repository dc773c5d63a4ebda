// Messages about a slot: the start and end of its generations, its end, its CPU, results that its
// executor holds, and use of device memory above its share. Alternatives of AgentMessage and
// AgentToProcess.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "base/model/resident_results.h"

namespace mobula::internal {

// The executor of the slot's generation accepts calls.
struct SlotStarted {
  SlotId slot;
  std::uint32_t generation = 0;
  Endpoint endpoint;
  EndCause previous;
  MOBULA_FIELDS(slot, generation, endpoint, previous);
  friend bool operator==(const SlotStarted&, const SlotStarted&) = default;
};

// The process of a generation has exited. SlotStarted of the next generation or SlotGone follows.
struct SlotGenerationEnded {
  SlotId slot;
  std::uint32_t generation = 0;
  ProcessId process;
  EndCause cause;
  std::uint64_t cut_calls = 0;  // unfinished calls that a departing executor had submitted
  std::string exit_failure{};   // reason why its exit handlers did not finish; empty: they did
  MOBULA_FIELDS(slot, generation, process, cause, cut_calls, exit_failure);
  friend bool operator==(const SlotGenerationEnded&, const SlotGenerationEnded&) = default;
};

// Nothing of the slot is left on the node, so the head may allocate its resources again.
struct SlotGone {
  SlotId slot;
  EndCause cause;
  bool program_cannot_start = false;
  MOBULA_FIELDS(slot, cause, program_cannot_start);
  friend bool operator==(const SlotGone&, const SlotGone&) = default;
};

// The executor of the slot is in a blocking call and releases its CPU (on), or it continues and
// needs the CPU (off).
struct SlotCpuReleased {
  SlotId slot;
  bool on = false;
  // The executor exits as planned and awaits only calls that it has submitted. It needs no resource
  // of the slot, and the slot ends with it.
  bool departed = false;
  EndCause cause{};  // set if `departed`
  MOBULA_FIELDS(slot, on, departed, cause);
  friend bool operator==(const SlotCpuReleased&, const SlotCpuReleased&) = default;
};

// The executor of the slot becomes idle while it holds results, or that state ends.
struct SlotResident {
  SlotId slot;
  ResidentResults residence;
  MOBULA_FIELDS(slot, residence);
  friend bool operator==(const SlotResident&, const SlotResident&) = default;
};

// A generation of the slot uses more device memory than its share, or no longer does.
// Informational: placement ignores it.
struct SlotShareExceeded {
  SlotId slot;
  std::uint32_t generation = 0;
  bool on = false;
  std::string text;  // human-readable amounts and the reaction
  MOBULA_FIELDS(slot, generation, on, text);
  friend bool operator==(const SlotShareExceeded&, const SlotShareExceeded&) = default;
};

// The executor and its child processes use more device memory than their share. The running call
// ends with this error.
struct OverShare {
  std::string text;
  MOBULA_FIELDS(text);
  friend bool operator==(const OverShare&, const OverShare&) = default;
};

}  // namespace mobula::internal
