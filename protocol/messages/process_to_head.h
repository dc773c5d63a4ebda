// Messages from a process (driver or executor) to the head, relayed by its agent, which adds the
// principal. Every message is full state or safe to repeat: a process repeats all of them after a
// head restart.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/model/group.h"
#include "base/model/jobs/job_terms.h"
#include "base/model/node_shape.h"
#include "base/model/reason.h"
#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/facts/class_use.h"
#include "protocol/messages/facts/span_facts.h"
#include "protocol/messages/facts/task_facts.h"
#include "protocol/messages/facts/transfer_facts.h"
#include "protocol/program/program.h"

namespace mobula::internal {

// ---- process to head ---------------------------------------------------------------------------

struct StartJob {
  JobId job;
  ProcessId driver;
  std::string name;
  std::string name_space;  // empty: a private namespace
  ProgramRecord program;
  Environment env;
  std::int64_t started_ms = 0;  // wall clock
  bool local_cluster = false;   // started by init: an infeasible request fails immediately
  bool show_output = true;      // the driver prints the output of executors
  JobTerms terms{};
  std::string language;  // language of the driver's host, as "python 3.12"; empty: C++
  MOBULA_FIELDS(job, driver, name, name_space, program, env, started_ms, local_cluster, show_output,
                terms, language);
  friend bool operator==(const StartJob&, const StartJob&) = default;
};

struct EndJob {
  JobId job;
  MOBULA_FIELDS(job);
  friend bool operator==(const EndJob&, const EndJob&) = default;
};

struct NodeCount {
  NodeId node;
  std::int64_t tasks = 0;  // tasks that prefer this node for their arguments
  MOBULA_FIELDS(node, tasks);
  friend bool operator==(const NodeCount&, const NodeCount&) = default;
};

// Full state of the demand of one lessee in one class. `wanted_slots` counts slots in addition to
// held ones; 0 ends the demand.
struct Demand {
  DemandClass demand_class;
  std::uint64_t version = 0;  // version of this class, rising; lower versions are outdated
  std::int64_t wanted_slots = 0;
  std::int64_t waiting_tasks = 0;
  Duration oldest_wait{};
  std::vector<NodeCount> locality;
  std::string example_name;  // name of a waiting task, for display
  bool fail_if_infeasible = false;
  // slots of the class that the lessee has and had not learned of at the previous Demand
  std::vector<SlotId> received;
  bool report_plan = false;  // the head answers with DemandPlanned
  Duration mean_run{};       // moving average of the run time of its tasks; 0: unknown
  MOBULA_FIELDS(demand_class, version, wanted_slots, waiting_tasks, oldest_wait, locality,
                example_name, fail_if_infeasible, received, report_plan, mean_run);
  friend bool operator==(const Demand&, const Demand&) = default;
};

// The lessee no longer needs the slot, or the slot was recalled and its last task has ended.
struct ReturnSlot {
  SlotId slot;
  // reason that the lessee cannot use the slot: its executor is unreachable
  std::string unreachable{};
  NodeId node{};  // unreachable: node of the executor, which the agent of the lessee then checks
  MOBULA_FIELDS(slot, unreachable, node);
  friend bool operator==(const ReturnSlot&, const ReturnSlot&) = default;
};

// States whether the running task of a preempted slot may be ended, because it can run again.
// Otherwise the slot returns when the task is done.
struct PreemptionAnswer {
  SlotId slot;
  bool may_end = false;
  std::string task_name;
  MOBULA_FIELDS(slot, may_end, task_name);
  friend bool operator==(const PreemptionAnswer&, const PreemptionAnswer&) = default;
};

// Restatement after a head restart: the lessee still uses this slot.
struct HoldSlot {
  SlotId slot;
  ClassId demand_class;
  MOBULA_FIELDS(slot, demand_class);
  friend bool operator==(const HoldSlot&, const HoldSlot&) = default;
};

// Requests an actor. The owner repeats it after a head restart. Answered by ActorChanged.
struct CreateActor {
  ActorSpec spec;
  bool fail_if_infeasible = false;
  std::uint32_t lived = 0;  // latest incarnation that the owner has seen alive; 0: none
  MOBULA_FIELDS(spec, fail_if_infeasible, lived);
  friend bool operator==(const CreateActor&, const CreateActor&) = default;
};

// The last handle was released (`kill` false: running calls finish first), or user code called
// kill().
struct EndActor {
  ActorId actor;
  bool kill = false;  // immediately
  bool no_restart = true;
  std::string why;
  MOBULA_FIELDS(actor, kill, no_restart, why);
  friend bool operator==(const EndActor&, const EndActor&) = default;
};

// A process with a handle requests the state of the actor, now and after each change.
struct WatchActor {
  ActorId actor;
  bool on = true;
  std::string unreachable{};  // reason that calls do not reach `executor`; empty: no report
  ProcessId executor{};       // unreachable: executor of the incarnation
  NodeId node{};  // unreachable: node of the executor, which the agent of the caller then checks
  MOBULA_FIELDS(actor, on, unreachable, executor, node);
  friend bool operator==(const WatchActor&, const WatchActor&) = default;
};

struct FindActor {
  std::uint64_t request = 0;
  std::string name;
  std::string name_space;
  // Set by the executor of this actor if user code called exit_actor: the head takes the name from
  // the actor before it replies.
  ActorId leaving{};
  MOBULA_FIELDS(request, name, name_space, leaving);
  friend bool operator==(const FindActor&, const FindActor&) = default;
};

// Requests a placement group. The creator repeats it after a head restart. Answered by
// GroupChanged.
struct CreateGroup {
  GroupSpec spec;
  MOBULA_FIELDS(spec);
  friend bool operator==(const CreateGroup&, const CreateGroup&) = default;
};

struct RemoveGroup {
  GroupId group;
  MOBULA_FIELDS(group);
  friend bool operator==(const RemoveGroup&, const RemoveGroup&) = default;
};

// Requests the state of a placement group, now and after each change.
struct WatchGroup {
  GroupId group;
  MOBULA_FIELDS(group);
  friend bool operator==(const WatchGroup&, const WatchGroup&) = default;
};

// Reads cluster state: "nodes", "named_actors", "explain", and the other kinds in tools.h.
struct ReadState {
  std::uint64_t request = 0;
  std::string kind;
  std::string argument;
  MOBULA_FIELDS(request, kind, argument);
  friend bool operator==(const ReadState&, const ReadState&) = default;
};

using ProcessToHead =
    std::variant<StartJob, EndJob, Demand, ReturnSlot, HoldSlot, CreateActor, EndActor, WatchActor,
                 FindActor, ReadState, CreateGroup, RemoveGroup, WatchGroup, TasksReply,
                 PreemptionAnswer, TransfersReply, TransferCounters, SpansReply, ClassUse>;

}  // namespace mobula::internal
