// Facts that an agent reports about its node: slots, processes, jobs, objects in the store, and
// addresses.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/model/jobs/principal.h"
#include "base/model/resident_results.h"
#include "base/model/task.h"
#include "protocol/codec/wire.h"
#include "protocol/messages/job_messages.h"
#include "protocol/messages/process_control.h"

namespace mobula::internal {

// One slot as its agent knows it; also used for restatement after a head restart.
struct SlotFact {
  SlotId slot;
  DemandClass demand_class;
  Allocation allocation;
  ProcessId lessee;  // empty for an actor slot
  ActorSpec actor;   // actor id empty for a task slot
  std::uint32_t generation = 0;
  bool ready = false;
  bool lent = false;
  bool stopping = false;
  Endpoint endpoint;
  ResidentResults residence;
  bool departed = false;  // stopping: it holds no resources, see SlotCpuReleased
  MOBULA_FIELDS(slot, demand_class, allocation, lessee, actor, generation, ready, lent, stopping,
                endpoint, residence, departed);
  friend bool operator==(const SlotFact&, const SlotFact&) = default;
};

// Term of one slot in AgentFrame::slots_digest. The digest is the sum over all slots of the node,
// so it does not depend on their order. The generation counts only once it accepts calls.
// slot_digest.h defines the term of a slot that is ending.
inline std::uint64_t slot_digest(SlotId slot, std::uint32_t generation, bool ready) {
  return derive_bits(slot.bits(), ready ? "ready" : "starting", ready ? generation : 0).low;
}

struct ProcessFact {
  ProcessId process;
  Principal principal;
  std::int64_t pid = 0;
  MOBULA_FIELDS(process, principal, pid);
  friend bool operator==(const ProcessFact&, const ProcessFact&) = default;
};

// A node reports only its latest ended commands. A report with this many entries may omit older
// ones.
inline constexpr std::size_t max_ended_entries = 256;

// An actor whose owner has exited as planned: its job owns it, and this node counts its handles.
struct EntrustedActor {
  ActorId actor;
  JobId job;
  bool held = true;  // at least one handle exists; the head ends an actor that has none
  MOBULA_FIELDS(actor, job, held);
  friend bool operator==(const EntrustedActor&, const EntrustedActor&) = default;
};

// Full state of a node.
struct Facts {
  std::vector<SlotFact> slots;
  std::vector<ProcessFact> processes;     // attached drivers and executors
  std::vector<JobId> jobs;                // jobs that have objects or processes on the node
  std::vector<EntryEnded> ended_entries;  // the latest, in order
  std::vector<EntrustedActor> entrusted{};
  MOBULA_FIELDS(slots, processes, jobs, ended_entries, entrusted);
  friend bool operator==(const Facts&, const Facts&) = default;
};

// Addresses at which other agents reach this one.
struct AgentAddress {
  NodeId node;
  ProcessId incarnation;
  std::string control;         // NAME:PORT of its bus
  std::string bulk;            // NAME:PORT of its bulk server
  std::string public_key;      // CURVE, Z85
  bool takes_readers = false;  // the agent accepts NodeReaderMoved
  MOBULA_FIELDS(node, incarnation, control, bulk, public_key, takes_readers);
  friend bool operator==(const AgentAddress&, const AgentAddress&) = default;
};

// A process of the node that holds an object. The agent holds the objects that it moves.
struct HolderFact {
  ProcessId process;
  Role role = Role::agent;
  std::int64_t pid = 0;
  bool reads = false;         // it has the bytes mapped and has not returned them
  std::string actor_class{};  // set for an executor of an actor
  std::string task{};         // name of the call that runs in an executor
  MOBULA_FIELDS(process, role, pid, reads, actor_class, task);
  friend bool operator==(const HolderFact&, const HolderFact&) = default;
};

// Capacity and use of the store of a node.
struct StoreFact {
  std::int64_t capacity_bytes = 0;
  std::int64_t committed_bytes = 0;  // bytes of memory in slabs
  std::int64_t used_bytes = 0;       // part of `committed_bytes` that objects use
  std::int64_t spilled_bytes = 0;    // bytes of objects that are only on disk
  std::int64_t file_bytes = 0;       // bytes of all files of spilled objects
  std::string spilling;              // reason that spilling is off; empty: spilling is on
  // drained node: objects with holders on other nodes and no replica there yet
  std::int64_t leaving_objects = 0;
  std::int64_t leaving_bytes = 0;
  MOBULA_FIELDS(capacity_bytes, committed_bytes, used_bytes, spilled_bytes, file_bytes, spilling,
                leaving_objects, leaving_bytes);
  friend bool operator==(const StoreFact&, const StoreFact&) = default;
};

// An object in the store of a node.
struct ObjectFact {
  ObjectId object;
  JobId job;
  std::int64_t size_bytes = 0;
  bool sealed = false;
  NodeId home;                        // node that counts the holds
  std::uint64_t processes = 0;        // processes of this node that hold it
  std::uint64_t nodes = 0;            // other nodes that hold it, if this node is the home
  bool spilled = false;               // the bytes are only on disk
  bool secondary = false;             // a replica of an object that another node has
  std::vector<HolderFact> holders;    // at most `max_holders` entries
  std::vector<NodeId> holding_nodes;  // at most `max_holders` entries
  static constexpr std::size_t max_holders = 16;
  MOBULA_FIELDS(object, job, size_bytes, sealed, home, processes, nodes, spilled, secondary,
                holders, holding_nodes);
  friend bool operator==(const ObjectFact&, const ObjectFact&) = default;
};

}  // namespace mobula::internal
