// What an agent states of its node: the slots, processes and jobs that are there, the objects in
// its store, and how it is reached. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/principal.h"
#include "model/residence.h"
#include "model/task.h"
#include "protocol/job_news.h"
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
  Residence residence;
  bool departed = false;  // stopping: it holds no resources, see SlotLent
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotFact::slot), field("demand_class", &SlotFact::demand_class),
                 field("allocation", &SlotFact::allocation), field("lessee", &SlotFact::lessee),
                 field("actor", &SlotFact::actor), field("generation", &SlotFact::generation),
                 field("ready", &SlotFact::ready), field("lent", &SlotFact::lent),
                 field("stopping", &SlotFact::stopping), field("endpoint", &SlotFact::endpoint),
                 field("residence", &SlotFact::residence), field("departed", &SlotFact::departed));
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

// Of commands that have ended a node states the latest; one that states so many may have forgotten others.
inline constexpr std::size_t max_ended_entries = 256;

// An actor whose owner has exited as planned: its job owns it, and this node counts its handles.
struct EntrustedActor {
  ActorId actor;
  JobId job;
  bool held = true;  // by at least one handle; the head ends an actor without
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &EntrustedActor::actor), field("job", &EntrustedActor::job),
                 field("held", &EntrustedActor::held));
  }
  friend bool operator==(const EntrustedActor&, const EntrustedActor&) = default;
};

// Full state of a node.
struct Facts {
  std::vector<SlotFact> slots;
  std::vector<ProcessFact> processes;  // attached drivers and executors
  std::vector<JobId> jobs;             // whose objects or processes are here
  std::vector<EntryEnded> ended_entries;  // the latest, in order
  std::vector<EntrustedActor> entrusted{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slots", &Facts::slots), field("processes", &Facts::processes),
                 field("jobs", &Facts::jobs), field("ended_entries", &Facts::ended_entries),
                 field("entrusted", &Facts::entrusted));
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

// A process of the node that holds an object. The agent itself holds what it moves.
struct HolderFact {
  ProcessId process;
  Role role = Role::agent;
  std::int64_t pid = 0;
  bool reads = false;  // it has the bytes in place, and has not returned them
  std::string actor_class{};  // set for an executor of an actor
  std::string task{};         // name of the call that runs in an executor
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &HolderFact::process), field("role", &HolderFact::role),
                 field("pid", &HolderFact::pid), field("reads", &HolderFact::reads),
                 field("actor_class", &HolderFact::actor_class), field("task", &HolderFact::task));
  }
  friend bool operator==(const HolderFact&, const HolderFact&) = default;
};

// What a node's store has and holds.
struct StoreFact {
  std::int64_t capacity_bytes = 0;
  std::int64_t committed_bytes = 0;  // of memory, in slabs
  std::int64_t used_bytes = 0;       // of it by objects
  std::int64_t spilled_bytes = 0;    // of objects that are on disk alone
  std::int64_t file_bytes = 0;       // of all files of spilled objects
  std::string spilling;              // why nothing is spilled; empty: it is, where need be
  std::int64_t leaving_objects = 0;  // of a drained node: those that others hold and have not copied yet
  std::int64_t leaving_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("capacity_bytes", &StoreFact::capacity_bytes),
                 field("committed_bytes", &StoreFact::committed_bytes),
                 field("used_bytes", &StoreFact::used_bytes),
                 field("spilled_bytes", &StoreFact::spilled_bytes),
                 field("file_bytes", &StoreFact::file_bytes),
                 field("spilling", &StoreFact::spilling),
                 field("leaving_objects", &StoreFact::leaving_objects),
                 field("leaving_bytes", &StoreFact::leaving_bytes));
  }
  friend bool operator==(const StoreFact&, const StoreFact&) = default;
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
  bool spilled = false;         // its bytes are on disk alone
  bool secondary = false;       // a copy of what another node has
  std::vector<HolderFact> holders;    // at most `max_holders` of them
  std::vector<NodeId> holding_nodes;  // likewise
  static constexpr std::size_t max_holders = 16;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectFact::object), field("job", &ObjectFact::job),
                 field("size_bytes", &ObjectFact::size_bytes), field("sealed", &ObjectFact::sealed),
                 field("home", &ObjectFact::home), field("processes", &ObjectFact::processes),
                 field("nodes", &ObjectFact::nodes), field("spilled", &ObjectFact::spilled),
                 field("secondary", &ObjectFact::secondary),
                 field("holders", &ObjectFact::holders),
                 field("holding_nodes", &ObjectFact::holding_nodes));
  }
  friend bool operator==(const ObjectFact&, const ObjectFact&) = default;
};

}  // namespace mobula::internal
