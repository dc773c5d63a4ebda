// Messages from the head to a process (driver or executor), relayed by its agent.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/model/node_shape.h"
#include "base/model/reason.h"
#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/facts/span_facts.h"
#include "protocol/messages/facts/task_facts.h"
#include "protocol/messages/facts/transfer_facts.h"
#include "protocol/program/program.h"

namespace mobula::internal {

struct StartJobReply {
  JobId job;
  std::string name_space;
  MOBULA_FIELDS(job, name_space);
  friend bool operator==(const StartJobReply&, const StartJobReply&) = default;
};

// A slot accepts calls: in its first generation, or in the next one after an exit.
struct SlotReady {
  SlotId slot;
  ClassId demand_class;
  NodeId node;
  std::uint32_t generation = 0;
  Endpoint endpoint;
  EndCause previous;  // generation > 0: end of the previous generation
  MOBULA_FIELDS(slot, demand_class, node, generation, endpoint, previous);
  friend bool operator==(const SlotReady&, const SlotReady&) = default;
};

// The process of a generation has exited. SlotReady of the next generation or SlotLost follows. The
// receiver acts on it only after the call stream is drained.
struct GenerationEnded {
  SlotId slot;
  std::uint32_t generation = 0;
  ProcessId process;
  EndCause cause;
  MOBULA_FIELDS(slot, generation, process, cause);
  friend bool operator==(const GenerationEnded&, const GenerationEnded&) = default;
};

struct SlotLost {
  SlotId slot;
  EndCause cause;
  MOBULA_FIELDS(slot, cause);
  friend bool operator==(const SlotLost&, const SlotLost&) = default;
};

// Fate of the task that runs in a recalled slot.
enum class RunningTask : std::uint8_t {
  finishes = 0,
  is_queried = 1,  // PreemptionAnswer reports whether it may be ended and rerun elsewhere
  ends = 2,        // ends if allowed; otherwise PreemptionAnswer
};

// Return the unstarted calls now, and the slot when the running task is done.
struct RecallSlot {
  SlotId slot;
  std::string why;
  RunningTask running = RunningTask::finishes;
  MOBULA_FIELDS(slot, why, running);
  friend bool operator==(const RecallSlot&, const RecallSlot&) = default;
};

// No present node can ever satisfy the class or the actor. With `fatal`, waiting requests fail with
// this error.
struct DemandInfeasible {
  ClassId demand_class;
  ActorId actor;  // set for the placement of an actor
  std::vector<NodeReason> reasons;
  std::string summary;
  bool fatal = false;
  bool group_removed = false;  // cause: its placement group was removed
  MOBULA_FIELDS(demand_class, actor, reasons, summary, fatal, group_removed);
  friend bool operator==(const DemandInfeasible&, const DemandInfeasible&) = default;
};

// The head has placed as much of a demand as fits now. Sent if Demand::report_plan is set.
struct DemandPlanned {
  ClassId demand_class;
  std::uint64_t version = 0;  // version of the latest Demand that the plan includes
  // slots granted to the process for this class and not ready yet; at most 1024
  std::vector<SlotId> starting;
  MOBULA_FIELDS(demand_class, version, starting);
  friend bool operator==(const DemandPlanned&, const DemandPlanned&) = default;
};

enum class ActorState : std::uint8_t {
  placing = 0,
  starting = 1,
  alive = 2,
  restarting = 3,
  dead = 4
};
std::string_view to_string(ActorState state);

struct ActorChanged {
  ActorId actor;
  std::uint64_t version = 0;  // version of the actor's state, rising within a head epoch
  ActorState state = ActorState::placing;
  std::uint32_t incarnation = 0;  // generations started until now; 1 is the first
  Endpoint endpoint;              // set if alive
  EndCause cause;                 // set if restarting or dead
  bool refused = false;  // dead because the request was rejected, for example a name in use
  ValueRecord construction_error;  // dead because the constructor threw
  std::int32_t max_task_retries = 0;
  // limit on unfinished calls of one calling process; -1: unlimited
  std::int32_t max_pending_calls = -1;
  bool out_of_order = false;  // as in ActorSpec
  MOBULA_FIELDS(actor, version, state, incarnation, endpoint, cause, refused, construction_error,
                max_task_retries, max_pending_calls, out_of_order);
  friend bool operator==(const ActorChanged&, const ActorChanged&) = default;
};

enum class GroupState : std::uint8_t { pending = 0, created = 1, rescheduling = 2, removed = 3 };
std::string_view to_string(GroupState state);

struct GroupChanged {
  GroupId group;
  std::uint64_t version = 0;  // version of the group's state, rising within a head epoch
  GroupState state = GroupState::pending;
  bool refused = false;     // removed because the request was rejected, for example a name in use
  bool infeasible = false;  // the present nodes can never hold the group
  std::string why;          // reason for removal or infeasibility
  std::string missing{};    // infeasible: resource that no node has for it; may be empty
  MOBULA_FIELDS(group, version, state, refused, infeasible, why, missing);
  friend bool operator==(const GroupChanged&, const GroupChanged&) = default;
};

// Answers FindActor, and CreateActor with get_if_exists if the name was in use. In that case
// `wanted` is the requested actor, and `actor` is the present owner of the name.
struct FindActorReply {
  std::uint64_t request = 0;
  bool found = false;
  ActorId wanted;
  ActorId actor;
  std::string class_name;
  FunctionKey class_key;
  NodeId owner_node;
  ProcessId owner;
  bool detached = false;
  std::int32_t max_task_retries = 0;
  std::int32_t max_pending_calls = -1;
  bool out_of_order = false;  // as in ActorSpec
  MOBULA_FIELDS(request, found, wanted, actor, class_name, class_key, owner_node, owner, detached,
                max_task_retries, max_pending_calls, out_of_order);
  friend bool operator==(const FindActorReply&, const FindActorReply&) = default;
};

struct ReadStateReply {
  std::uint64_t request = 0;
  std::string json;   // one document in the format of `mobula list -o json`
  std::string error;  // not empty: the read was rejected
  MOBULA_FIELDS(request, json, error);
  friend bool operator==(const ReadStateReply&, const ReadStateReply&) = default;
};

// To the driver, over its agent: the job has ended, nothing of it runs, and all output of its
// executors was delivered.
struct JobFinished {
  JobId job;
  MOBULA_FIELDS(job);
  friend bool operator==(const JobFinished&, const JobFinished&) = default;
};

struct RequestRejected {
  JobId job;
  std::string why;
  MOBULA_FIELDS(job, why);
  friend bool operator==(const RequestRejected&, const RequestRejected&) = default;
};

using HeadToProcess =
    std::variant<StartJobReply, SlotReady, GenerationEnded, SlotLost, RecallSlot, DemandInfeasible,
                 ActorChanged, FindActorReply, ReadStateReply, RequestRejected, GroupChanged,
                 TasksRequest, TransfersRequest, SpansRequest, DemandPlanned>;

}  // namespace mobula::internal
