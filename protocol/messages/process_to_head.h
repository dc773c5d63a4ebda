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
#include "base/model/job_terms.h"
#include "base/model/node_shape.h"
#include "base/model/reason.h"
#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/span_facts.h"
#include "protocol/messages/task_facts.h"
#include "protocol/messages/transfer_facts.h"
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &StartJob::job), field("driver", &StartJob::driver),
                 field("name", &StartJob::name), field("name_space", &StartJob::name_space),
                 field("program", &StartJob::program), field("env", &StartJob::env),
                 field("started_ms", &StartJob::started_ms),
                 field("local_cluster", &StartJob::local_cluster),
                 field("show_output", &StartJob::show_output), field("terms", &StartJob::terms));
  }
  friend bool operator==(const StartJob&, const StartJob&) = default;
};

struct EndJob {
  JobId job;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &EndJob::job));
  }
  friend bool operator==(const EndJob&, const EndJob&) = default;
};

struct NodeCount {
  NodeId node;
  std::int64_t tasks = 0;  // tasks that prefer this node for their arguments
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("node", &NodeCount::node), field("tasks", &NodeCount::tasks));
  }
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
  std::vector<SlotId> heard;
  bool report_plan = false;  // the head answers with DemandPlanned
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("demand_class", &Demand::demand_class), field("version", &Demand::version),
                 field("wanted_slots", &Demand::wanted_slots),
                 field("waiting_tasks", &Demand::waiting_tasks),
                 field("oldest_wait", &Demand::oldest_wait), field("locality", &Demand::locality),
                 field("example_name", &Demand::example_name),
                 field("fail_if_infeasible", &Demand::fail_if_infeasible),
                 field("heard", &Demand::heard), field("report_plan", &Demand::report_plan));
  }
  friend bool operator==(const Demand&, const Demand&) = default;
};

// The lessee no longer needs the slot, or the slot was recalled and its last task has ended.
struct ReturnSlot {
  SlotId slot;
  // reason that the lessee cannot use the slot: its executor is unreachable
  std::string unreachable{};
  NodeId node{};  // unreachable: node of the executor, which the agent of the lessee then checks
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ReturnSlot::slot), field("unreachable", &ReturnSlot::unreachable),
                 field("node", &ReturnSlot::node));
  }
  friend bool operator==(const ReturnSlot&, const ReturnSlot&) = default;
};

// States whether the running task of a preempted slot may be ended, because it can run again.
// Otherwise the slot returns when the task is done.
struct PreemptionAnswer {
  SlotId slot;
  bool may_end = false;
  std::string task_name;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &PreemptionAnswer::slot),
                 field("may_end", &PreemptionAnswer::may_end),
                 field("task_name", &PreemptionAnswer::task_name));
  }
  friend bool operator==(const PreemptionAnswer&, const PreemptionAnswer&) = default;
};

// Restatement after a head restart: the lessee still uses this slot.
struct HoldSlot {
  SlotId slot;
  ClassId demand_class;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &HoldSlot::slot), field("demand_class", &HoldSlot::demand_class));
  }
  friend bool operator==(const HoldSlot&, const HoldSlot&) = default;
};

// Requests an actor. The owner repeats it after a head restart. Answered by ActorChanged.
struct CreateActor {
  ActorSpec spec;
  bool fail_if_infeasible = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &CreateActor::spec),
                 field("fail_if_infeasible", &CreateActor::fail_if_infeasible));
  }
  friend bool operator==(const CreateActor&, const CreateActor&) = default;
};

// The last handle was released (`kill` false: running calls finish first), or user code called
// kill().
struct EndActor {
  ActorId actor;
  bool kill = false;  // immediately
  bool no_restart = true;
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &EndActor::actor), field("kill", &EndActor::kill),
                 field("no_restart", &EndActor::no_restart), field("why", &EndActor::why));
  }
  friend bool operator==(const EndActor&, const EndActor&) = default;
};

// A process with a handle requests the state of the actor, now and after each change.
struct WatchActor {
  ActorId actor;
  bool on = true;
  std::string unreachable{};  // reason that calls do not reach `executor`; empty: no report
  ProcessId executor{};       // unreachable: executor of the incarnation
  NodeId node{};  // unreachable: node of the executor, which the agent of the caller then checks
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &WatchActor::actor), field("on", &WatchActor::on),
                 field("unreachable", &WatchActor::unreachable),
                 field("executor", &WatchActor::executor), field("node", &WatchActor::node));
  }
  friend bool operator==(const WatchActor&, const WatchActor&) = default;
};

struct FindActor {
  std::uint64_t request = 0;
  std::string name;
  std::string name_space;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &FindActor::request), field("name", &FindActor::name),
                 field("name_space", &FindActor::name_space));
  }
  friend bool operator==(const FindActor&, const FindActor&) = default;
};

// Requests a placement group. The creator repeats it after a head restart. Answered by
// GroupChanged.
struct CreateGroup {
  GroupSpec spec;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &CreateGroup::spec));
  }
  friend bool operator==(const CreateGroup&, const CreateGroup&) = default;
};

struct RemoveGroup {
  GroupId group;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &RemoveGroup::group));
  }
  friend bool operator==(const RemoveGroup&, const RemoveGroup&) = default;
};

// Requests the state of a placement group, now and after each change.
struct WatchGroup {
  GroupId group;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &WatchGroup::group));
  }
  friend bool operator==(const WatchGroup&, const WatchGroup&) = default;
};

// Reads cluster state: "nodes", "named_actors", "explain", and the other kinds in tools.h.
struct ReadState {
  std::uint64_t request = 0;
  std::string kind;
  std::string argument;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ReadState::request), field("kind", &ReadState::kind),
                 field("argument", &ReadState::argument));
  }
  friend bool operator==(const ReadState&, const ReadState&) = default;
};

using ProcessToHead =
    std::variant<StartJob, EndJob, Demand, ReturnSlot, HoldSlot, CreateActor, EndActor, WatchActor,
                 FindActor, ReadState, CreateGroup, RemoveGroup, WatchGroup, TasksReply,
                 PreemptionAnswer, TransfersReply, TransferCounters, SpansReply>;

}  // namespace mobula::internal
