// What an agent states of its node: the slots, processes and jobs that are there, the objects in
// its store, and how it is reached. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/task.h"
#include "protocol/process_control.h"
#include "protocol/wire.h"

namespace mobula::internal {

// One slot as its agent knows it, also for restatement after a head restart.
struct SlotFact {
  SlotId slot;
  DemandClass demand_class;
  Allocation allocation;
  ProcessId lessee;  // empty for an actor's slot
  ActorSpec actor;   // actor id empty for a task slot
  std::uint32_t generation = 0;
  bool ready = false;
  bool lent = false;
  bool stopping = false;
  Endpoint endpoint;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotFact::slot), field("demand_class", &SlotFact::demand_class),
                 field("allocation", &SlotFact::allocation), field("lessee", &SlotFact::lessee),
                 field("actor", &SlotFact::actor), field("generation", &SlotFact::generation),
                 field("ready", &SlotFact::ready), field("lent", &SlotFact::lent),
                 field("stopping", &SlotFact::stopping), field("endpoint", &SlotFact::endpoint));
  }
  friend bool operator==(const SlotFact&, const SlotFact&) = default;
};

// The term of one slot in AgentFrame::slots_digest, which is the sum over all slots of the node:
// equal sums, equal slots, whatever their order. Which generation a slot is at counts only once it
// answers calls. Slots that are ending have another term: slot_digest.h.
inline std::uint64_t slot_digest(SlotId slot, std::uint32_t generation, bool ready) {
  return derive_bits(slot.bits(), ready ? "ready" : "starting", ready ? generation : 0).low;
}

struct ProcessFact {
  ProcessId process;
  Principal principal;
  std::int64_t pid = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ProcessFact::process),
                 field("principal", &ProcessFact::principal), field("pid", &ProcessFact::pid));
  }
  friend bool operator==(const ProcessFact&, const ProcessFact&) = default;
};

// Full state of a node.
struct Facts {
  std::vector<SlotFact> slots;
  std::vector<ProcessFact> processes;  // attached drivers and executors
  std::vector<JobId> jobs;             // whose objects or processes are here
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slots", &Facts::slots), field("processes", &Facts::processes),
                 field("jobs", &Facts::jobs));
  }
  friend bool operator==(const Facts&, const Facts&) = default;
};

// How other agents reach this one.
struct AgentAddress {
  NodeId node;
  ProcessId incarnation;
  std::string control;     // NAME:PORT of its bus
  std::string bulk;        // NAME:PORT of its bulk server
  std::string public_key;  // CURVE, Z85
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("node", &AgentAddress::node),
                 field("incarnation", &AgentAddress::incarnation),
                 field("control", &AgentAddress::control), field("bulk", &AgentAddress::bulk),
                 field("public_key", &AgentAddress::public_key));
  }
  friend bool operator==(const AgentAddress&, const AgentAddress&) = default;
};

// An object in a node's store.
struct ObjectFact {
  ObjectId object;
  JobId job;
  std::int64_t size_bytes = 0;
  bool sealed = false;
  NodeId home;                  // which counts who holds it
  std::uint64_t processes = 0;  // of this node that hold it
  std::uint64_t nodes = 0;      // other nodes that hold it, where this one is its home
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectFact::object), field("job", &ObjectFact::job),
                 field("size_bytes", &ObjectFact::size_bytes), field("sealed", &ObjectFact::sealed),
                 field("home", &ObjectFact::home), field("processes", &ObjectFact::processes),
                 field("nodes", &ObjectFact::nodes));
  }
  friend bool operator==(const ObjectFact&, const ObjectFact&) = default;
};

}  // namespace mobula::internal
