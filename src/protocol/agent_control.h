// Between a worker agent and the head: registration, then one sequenced conversation per (head epoch,
// agent incarnation). Plain structs; the order of alternatives is the wire number.
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

// ---- agent to head -------------------------------------------------------------------------------

// One slot as its agent knows it, also for restatement after a head restart.
struct SlotFact {
  SlotId slot;
  DemandClass demand_class;
  Allocation allocation;
  ProcessId lessee;        // empty for an actor's slot
  ActorSpec actor;         // actor id empty for a task slot
  std::uint32_t generation = 0;
  bool ready = false;
  bool lent = false;
  bool stopping = false;
  Endpoint endpoint;
  static constexpr auto fields() {
    return field_list(field("slot", &SlotFact::slot), field("demand_class", &SlotFact::demand_class),
                      field("allocation", &SlotFact::allocation),
                      field("lessee", &SlotFact::lessee), field("actor", &SlotFact::actor),
                      field("generation", &SlotFact::generation), field("ready", &SlotFact::ready),
                      field("lent", &SlotFact::lent), field("stopping", &SlotFact::stopping),
                      field("endpoint", &SlotFact::endpoint));
  }
  friend bool operator==(const SlotFact&, const SlotFact&) = default;
};

// The term of one slot in AgentFrame::slots_digest, which is the sum over all slots of the node that
// are not stopping: equal sums, equal slots, whatever their order.
inline std::uint64_t slot_digest(SlotId slot, std::uint32_t generation, bool ready) {
  return derive_bits(slot.bits(), ready ? "ready" : "starting", generation).low;
}

struct ProcessFact {
  ProcessId process;
  Principal principal;
  std::int64_t pid = 0;
  static constexpr auto fields() {
    return field_list(field("process", &ProcessFact::process),
                      field("principal", &ProcessFact::principal), field("pid", &ProcessFact::pid));
  }
  friend bool operator==(const ProcessFact&, const ProcessFact&) = default;
};

// Full state of a node.
struct Facts {
  std::vector<SlotFact> slots;
  std::vector<ProcessFact> processes;  // attached drivers and executors
  std::vector<JobId> jobs;             // whose objects or processes are here
  static constexpr auto fields() {
    return field_list(field("slots", &Facts::slots), field("processes", &Facts::processes),
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
  static constexpr auto fields() {
    return field_list(field("node", &AgentAddress::node),
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
  static constexpr auto fields() {
    return field_list(field("version", &Register::version), field("address", &Register::address),
                      field("host", &Register::host), field("role", &Register::role),
                      field("shape", &Register::shape),
                      field("delegated_key", &Register::delegated_key),
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
  static constexpr auto fields() {
    return field_list(field("slot", &SlotStarted::slot),
                      field("generation", &SlotStarted::generation),
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
  static constexpr auto fields() {
    return field_list(field("slot", &SlotGenerationEnded::slot),
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
  static constexpr auto fields() {
    return field_list(field("slot", &SlotGone::slot), field("cause", &SlotGone::cause),
                      field("program_cannot_start", &SlotGone::program_cannot_start));
  }
  friend bool operator==(const SlotGone&, const SlotGone&) = default;
};

// The executor of the slot waits in a blocking call (on) or goes on (off): its CPU and place are lent.
struct SlotLent {
  SlotId slot;
  bool on = false;
  static constexpr auto fields() {
    return field_list(field("slot", &SlotLent::slot), field("on", &SlotLent::on));
  }
  friend bool operator==(const SlotLent&, const SlotLent&) = default;
};

// An actor's constructor has finished: with a value (none) or the error it threw.
struct ActorConstructed {
  ActorId actor;
  SlotId slot;
  std::uint32_t generation = 0;
  ValueRecord error;  // is_error if it threw
  static constexpr auto fields() {
    return field_list(field("actor", &ActorConstructed::actor),
                      field("slot", &ActorConstructed::slot),
                      field("generation", &ActorConstructed::generation),
                      field("error", &ActorConstructed::error));
  }
  friend bool operator==(const ActorConstructed&, const ActorConstructed&) = default;
};

struct FromProcess {
  ProcessId process;
  Principal principal;
  ProcessToHead message;
  static constexpr auto fields() {
    return field_list(field("process", &FromProcess::process),
                      field("principal", &FromProcess::principal),
                      field("message", &FromProcess::message));
  }
  friend bool operator==(const FromProcess&, const FromProcess&) = default;
};

struct ProcessAttached {
  ProcessFact process;
  static constexpr auto fields() { return field_list(field("process", &ProcessAttached::process)); }
  friend bool operator==(const ProcessAttached&, const ProcessAttached&) = default;
};

struct ProcessEnded {
  ProcessId process;
  EndCause cause;
  static constexpr auto fields() {
    return field_list(field("process", &ProcessEnded::process), field("cause", &ProcessEnded::cause));
  }
  friend bool operator==(const ProcessEnded&, const ProcessEnded&) = default;
};

// Copies of objects whose home is another node, for finding them when the home has died.
struct ObjectCopies {
  std::vector<ObjectId> added;
  std::vector<ObjectId> removed;
  static constexpr auto fields() {
    return field_list(field("added", &ObjectCopies::added),
                      field("removed", &ObjectCopies::removed));
  }
  friend bool operator==(const ObjectCopies&, const ObjectCopies&) = default;
};

struct LocateObject {
  ObjectId object;
  static constexpr auto fields() { return field_list(field("object", &LocateObject::object)); }
  friend bool operator==(const LocateObject&, const LocateObject&) = default;
};

struct FullFacts {
  Facts facts;
  static constexpr auto fields() { return field_list(field("facts", &FullFacts::facts)); }
  friend bool operator==(const FullFacts&, const FullFacts&) = default;
};

using AgentMessage =
    std::variant<SlotStarted, SlotGenerationEnded, SlotGone, SlotLent, ActorConstructed, FromProcess,
                 ProcessAttached, ProcessEnded, ObjectCopies, LocateObject, FullFacts>;

// Everything sequenced, and the heartbeat: sent at least once a second.
struct AgentFrame {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::uint64_t applied_through = 0;  // last head command that was carried out
  std::uint64_t slots_digest = 0;     // sum of slot_digest() after that command
  Frame<AgentMessage> frame;
  static constexpr auto fields() {
    return field_list(field("head_epoch", &AgentFrame::head_epoch),
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
  static constexpr auto fields() { return field_list(field("incarnation", &Farewell::incarnation)); }
  friend bool operator==(const Farewell&, const Farewell&) = default;
};

using AgentToHead = std::variant<Register, AgentFrame, Farewell>;

// ---- head to agent -------------------------------------------------------------------------------

struct ClusterSettings {
  Duration suspect_after = Duration(3s);
  Duration dead_after = Duration(10s);
  Duration heartbeat = Duration(500ms);
  Duration fence_after = Duration(8s);   // exclusive actors end after so long without the head
  Duration lend_after = Duration(5ms);
  std::string cluster_name;
  static constexpr auto fields() {
    return field_list(field("suspect_after", &ClusterSettings::suspect_after),
                      field("dead_after", &ClusterSettings::dead_after),
                      field("heartbeat", &ClusterSettings::heartbeat),
                      field("fence_after", &ClusterSettings::fence_after),
                      field("lend_after", &ClusterSettings::lend_after),
                      field("cluster_name", &ClusterSettings::cluster_name));
  }
  friend bool operator==(const ClusterSettings&, const ClusterSettings&) = default;
};

// Admits one incarnation; the sequenced conversation starts at 1 in both directions.
struct Registered {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::string ticket;            // the agent's own, signed by the head: it may sign for its node
  std::string head_signing_key;
  ClusterSettings settings;
  std::vector<AgentAddress> peers;
  std::vector<SlotId> unknown_slots;  // stated by the agent, refused by the head: end them
  static constexpr auto fields() {
    return field_list(field("head_epoch", &Registered::head_epoch),
                      field("incarnation", &Registered::incarnation),
                      field("ticket", &Registered::ticket),
                      field("head_signing_key", &Registered::head_signing_key),
                      field("settings", &Registered::settings), field("peers", &Registered::peers),
                      field("unknown_slots", &Registered::unknown_slots));
  }
  friend bool operator==(const Registered&, const Registered&) = default;
};

enum class RefusalCode : std::uint8_t {
  version = 0,      // protocol mismatch: final
  permission = 1,   // final
  fenced = 2,       // this incarnation was declared dead: end everything, come back as a new one
  unknown = 3,      // the head does not know this conversation: register again
  duplicate = 4,    // another live agent has this node id: final
};

struct Refused {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  RefusalCode code = RefusalCode::unknown;
  std::string why;
  static constexpr auto fields() {
    return field_list(field("head_epoch", &Refused::head_epoch),
                      field("incarnation", &Refused::incarnation), field("code", &Refused::code),
                      field("why", &Refused::why));
  }
  friend bool operator==(const Refused&, const Refused&) = default;
};

// Books are made: start an executor for this slot, with exactly this allocation.
struct StartSlot {
  SlotId slot;
  DemandClass demand_class;
  Allocation allocation;
  ProcessId lessee;   // task slot
  ActorSpec actor;    // actor slot: actor id set
  std::uint32_t first_generation = 0;  // actors: continues the count of incarnations
  ProgramRecord program;
  Environment job_env;
  std::string name_space;
  static constexpr auto fields() {
    return field_list(field("slot", &StartSlot::slot),
                      field("demand_class", &StartSlot::demand_class),
                      field("allocation", &StartSlot::allocation),
                      field("lessee", &StartSlot::lessee), field("actor", &StartSlot::actor),
                      field("first_generation", &StartSlot::first_generation),
                      field("program", &StartSlot::program), field("job_env", &StartSlot::job_env),
                      field("name_space", &StartSlot::name_space));
  }
  friend bool operator==(const StartSlot&, const StartSlot&) = default;
};

// End whatever runs in the slot and report SlotGone. Gracefully: the running call finishes.
struct StopSlot {
  SlotId slot;
  bool graceful = false;
  std::string why;
  static constexpr auto fields() {
    return field_list(field("slot", &StopSlot::slot), field("graceful", &StopSlot::graceful),
                      field("why", &StopSlot::why));
  }
  friend bool operator==(const StopSlot&, const StopSlot&) = default;
};

struct ToProcess {
  ProcessId process;
  HeadToProcess message;
  static constexpr auto fields() {
    return field_list(field("process", &ToProcess::process), field("message", &ToProcess::message));
  }
  friend bool operator==(const ToProcess&, const ToProcess&) = default;
};

// The job has ended: end its processes (detached actors excepted, `kept_slots`), free its objects.
struct JobEnded {
  JobId job;
  std::vector<SlotId> kept_slots;
  static constexpr auto fields() {
    return field_list(field("job", &JobEnded::job), field("kept_slots", &JobEnded::kept_slots));
  }
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

struct PeersChanged {
  std::vector<AgentAddress> present;    // new or changed
  std::vector<ProcessId> dead_agents;   // incarnations that will never act again
  std::vector<ProcessId> dead_processes;
  static constexpr auto fields() {
    return field_list(field("present", &PeersChanged::present),
                      field("dead_agents", &PeersChanged::dead_agents),
                      field("dead_processes", &PeersChanged::dead_processes));
  }
  friend bool operator==(const PeersChanged&, const PeersChanged&) = default;
};

struct ObjectLocated {
  ObjectId object;
  std::vector<NodeId> nodes;
  static constexpr auto fields() {
    return field_list(field("object", &ObjectLocated::object), field("nodes", &ObjectLocated::nodes));
  }
  friend bool operator==(const ObjectLocated&, const ObjectLocated&) = default;
};

struct ReportFacts {
  static constexpr auto fields() { return field_list(); }
  friend bool operator==(const ReportFacts&, const ReportFacts&) = default;
};

using HeadMessage = std::variant<StartSlot, StopSlot, ToProcess, JobEnded, PeersChanged,
                                 ObjectLocated, ReportFacts>;

struct HeadFrame {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;  // of the agent it is for
  Frame<HeadMessage> frame;
  static constexpr auto fields() {
    return field_list(field("head_epoch", &HeadFrame::head_epoch),
                      field("incarnation", &HeadFrame::incarnation),
                      field("frame", &HeadFrame::frame));
  }
  friend bool operator==(const HeadFrame&, const HeadFrame&) = default;
};

using HeadToAgent = std::variant<Registered, Refused, HeadFrame>;

}  // namespace mobula::internal
