// What a worker agent says to the head: registration, then one sequenced conversation per (head
// epoch, agent incarnation). Plain structs; the order of alternatives is the wire number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "model/node_shape.h"
#include "model/task.h"
#include "protocol/process_control.h"
#include "protocol/wire.h"

namespace mobula::internal {

// ---- agent to head
// -------------------------------------------------------------------------------

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

// The term of one slot in AgentFrame::slots_digest, which is the sum over all slots of the node
// that are not stopping: equal sums, equal slots, whatever their order.
inline std::uint64_t slot_digest(SlotId slot, std::uint32_t generation, bool ready) {
  return derive_bits(slot.bits(), ready ? "ready" : "starting", generation).low;
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

// Repeated until answered by Registered or Refused. Not sequenced.
struct Register {
  std::uint32_t version = protocol_version;
  AgentAddress address;
  std::string host;
  Role role = Role::agent;
  NodeShape shape;
  std::string delegated_key;  // signs tickets of this node's processes
  Facts facts;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("version", &Register::version), field("address", &Register::address),
                 field("host", &Register::host), field("role", &Register::role),
                 field("shape", &Register::shape), field("delegated_key", &Register::delegated_key),
                 field("facts", &Register::facts));
  }
  friend bool operator==(const Register&, const Register&) = default;
};

// The executor of a slot's generation answers calls.
struct SlotStarted {
  SlotId slot;
  std::uint32_t generation = 0;
  Endpoint endpoint;
  EndCause previous;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotStarted::slot), field("generation", &SlotStarted::generation),
                 field("endpoint", &SlotStarted::endpoint),
                 field("previous", &SlotStarted::previous));
  }
  friend bool operator==(const SlotStarted&, const SlotStarted&) = default;
};

// A generation's process is gone; whether another follows is in `last`.
struct SlotGenerationEnded {
  SlotId slot;
  std::uint32_t generation = 0;
  ProcessId process;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotGenerationEnded::slot),
                 field("generation", &SlotGenerationEnded::generation),
                 field("process", &SlotGenerationEnded::process),
                 field("cause", &SlotGenerationEnded::cause));
  }
  friend bool operator==(const SlotGenerationEnded&, const SlotGenerationEnded&) = default;
};

// Nothing of the slot is left on the node: what it booked may be offered again.
struct SlotGone {
  SlotId slot;
  EndCause cause;
  bool program_cannot_start = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotGone::slot), field("cause", &SlotGone::cause),
                 field("program_cannot_start", &SlotGone::program_cannot_start));
  }
  friend bool operator==(const SlotGone&, const SlotGone&) = default;
};

// The executor of the slot waits in a blocking call (on) or goes on (off): its CPU and place are
// lent.
struct SlotLent {
  SlotId slot;
  bool on = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotLent::slot), field("on", &SlotLent::on));
  }
  friend bool operator==(const SlotLent&, const SlotLent&) = default;
};

// An actor's constructor has finished: with a value (none) or the error it threw.
struct ActorConstructed {
  ActorId actor;
  SlotId slot;
  std::uint32_t generation = 0;
  ValueRecord error;  // is_error if it threw
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &ActorConstructed::actor), field("slot", &ActorConstructed::slot),
                 field("generation", &ActorConstructed::generation),
                 field("error", &ActorConstructed::error));
  }
  friend bool operator==(const ActorConstructed&, const ActorConstructed&) = default;
};

struct FromProcess {
  ProcessId process;
  Principal principal;
  ProcessToHead message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &FromProcess::process),
                 field("principal", &FromProcess::principal),
                 field("message", &FromProcess::message));
  }
  friend bool operator==(const FromProcess&, const FromProcess&) = default;
};

struct ProcessAttached {
  ProcessFact process;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ProcessAttached::process));
  }
  friend bool operator==(const ProcessAttached&, const ProcessAttached&) = default;
};

struct ProcessEnded {
  ProcessId process;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ProcessEnded::process), field("cause", &ProcessEnded::cause));
  }
  friend bool operator==(const ProcessEnded&, const ProcessEnded&) = default;
};

// Copies of objects whose home is another node, for finding them when the home has died.
struct ObjectCopies {
  std::vector<ObjectId> added;
  std::vector<ObjectId> removed;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("added", &ObjectCopies::added), field("removed", &ObjectCopies::removed));
  }
  friend bool operator==(const ObjectCopies&, const ObjectCopies&) = default;
};

struct LocateObject {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &LocateObject::object));
  }
  friend bool operator==(const LocateObject&, const LocateObject&) = default;
};

struct FullFacts {
  Facts facts;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("facts", &FullFacts::facts));
  }
  friend bool operator==(const FullFacts&, const FullFacts&) = default;
};

using AgentMessage =
    std::variant<SlotStarted, SlotGenerationEnded, SlotGone, SlotLent, ActorConstructed,
                 FromProcess, ProcessAttached, ProcessEnded, ObjectCopies, LocateObject, FullFacts>;

// Everything sequenced, and the heartbeat: sent at least once a second.
struct AgentFrame {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::uint64_t applied_through = 0;  // last head command that was carried out
  std::uint64_t slots_digest = 0;     // sum of slot_digest() after that command
  Frame<AgentMessage> frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("head_epoch", &AgentFrame::head_epoch),
                 field("incarnation", &AgentFrame::incarnation),
                 field("applied_through", &AgentFrame::applied_through),
                 field("slots_digest", &AgentFrame::slots_digest),
                 field("frame", &AgentFrame::frame));
  }
  friend bool operator==(const AgentFrame&, const AgentFrame&) = default;
};

// The agent leaves in good order: its slots have ended.
struct Farewell {
  ProcessId incarnation;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("incarnation", &Farewell::incarnation));
  }
  friend bool operator==(const Farewell&, const Farewell&) = default;
};

using AgentToHead = std::variant<Register, AgentFrame, Farewell>;

}  // namespace mobula::internal
