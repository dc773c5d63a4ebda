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
#include "protocol/messages/span_facts.h"
#include "protocol/messages/task_facts.h"
#include "protocol/messages/transfer_facts.h"
#include "protocol/program/program.h"

namespace mobula::internal {

struct StartJobReply {
  JobId job;
  std::string name_space;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &StartJobReply::job),
                 field("name_space", &StartJobReply::name_space));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotReady::slot), field("demand_class", &SlotReady::demand_class),
                 field("node", &SlotReady::node), field("generation", &SlotReady::generation),
                 field("endpoint", &SlotReady::endpoint), field("previous", &SlotReady::previous));
  }
  friend bool operator==(const SlotReady&, const SlotReady&) = default;
};

// The process of a generation has exited. SlotReady of the next generation or SlotLost follows. The
// receiver acts on it only after the call stream is drained.
struct GenerationEnded {
  SlotId slot;
  std::uint32_t generation = 0;
  ProcessId process;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("slot", &GenerationEnded::slot), field("generation", &GenerationEnded::generation),
        field("process", &GenerationEnded::process), field("cause", &GenerationEnded::cause));
  }
  friend bool operator==(const GenerationEnded&, const GenerationEnded&) = default;
};

struct SlotLost {
  SlotId slot;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotLost::slot), field("cause", &SlotLost::cause));
  }
  friend bool operator==(const SlotLost&, const SlotLost&) = default;
};

// Fate of the task that runs in a recalled slot.
enum class RunningTask : std::uint8_t {
  finishes = 0,
  is_asked_about = 1,  // PreemptionAnswer reports whether it may be ended and rerun elsewhere
  ends = 2,            // ends if allowed; otherwise PreemptionAnswer
};

// Return the unstarted calls now, and the slot when the running task is done.
struct RecallSlot {
  SlotId slot;
  std::string why;
  RunningTask running = RunningTask::finishes;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &RecallSlot::slot), field("why", &RecallSlot::why),
                 field("running", &RecallSlot::running));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("demand_class", &DemandInfeasible::demand_class),
        field("actor", &DemandInfeasible::actor), field("reasons", &DemandInfeasible::reasons),
        field("summary", &DemandInfeasible::summary), field("fatal", &DemandInfeasible::fatal),
        field("group_removed", &DemandInfeasible::group_removed));
  }
  friend bool operator==(const DemandInfeasible&, const DemandInfeasible&) = default;
};

// The head has placed as much of a demand as fits now. Sent if Demand::report_plan is set.
struct DemandPlanned {
  ClassId demand_class;
  std::uint64_t version = 0;  // version of the latest Demand that the plan includes
  // slots granted to the process for this class and not ready yet; at most 1024
  std::vector<SlotId> starting;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("demand_class", &DemandPlanned::demand_class),
                 field("version", &DemandPlanned::version),
                 field("starting", &DemandPlanned::starting));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &ActorChanged::actor), field("version", &ActorChanged::version),
                 field("state", &ActorChanged::state),
                 field("incarnation", &ActorChanged::incarnation),
                 field("endpoint", &ActorChanged::endpoint), field("cause", &ActorChanged::cause),
                 field("refused", &ActorChanged::refused),
                 field("construction_error", &ActorChanged::construction_error),
                 field("max_task_retries", &ActorChanged::max_task_retries),
                 field("max_pending_calls", &ActorChanged::max_pending_calls));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &GroupChanged::group), field("version", &GroupChanged::version),
                 field("state", &GroupChanged::state), field("refused", &GroupChanged::refused),
                 field("infeasible", &GroupChanged::infeasible), field("why", &GroupChanged::why),
                 field("missing", &GroupChanged::missing));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &FindActorReply::request), field("found", &FindActorReply::found),
                 field("wanted", &FindActorReply::wanted), field("actor", &FindActorReply::actor),
                 field("class_name", &FindActorReply::class_name),
                 field("class_key", &FindActorReply::class_key),
                 field("owner_node", &FindActorReply::owner_node),
                 field("owner", &FindActorReply::owner),
                 field("detached", &FindActorReply::detached),
                 field("max_task_retries", &FindActorReply::max_task_retries),
                 field("max_pending_calls", &FindActorReply::max_pending_calls));
  }
  friend bool operator==(const FindActorReply&, const FindActorReply&) = default;
};

struct ReadStateReply {
  std::uint64_t request = 0;
  std::string json;   // one document in the format of `mobula list -o json`
  std::string error;  // not empty: the read was rejected
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ReadStateReply::request), field("json", &ReadStateReply::json),
                 field("error", &ReadStateReply::error));
  }
  friend bool operator==(const ReadStateReply&, const ReadStateReply&) = default;
};

// To the driver, over its agent: the job has ended, nothing of it runs, and all output of its
// executors was delivered.
struct JobFinished {
  JobId job;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &JobFinished::job));
  }
  friend bool operator==(const JobFinished&, const JobFinished&) = default;
};

struct RequestRejected {
  JobId job;
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &RequestRejected::job), field("why", &RequestRejected::why));
  }
  friend bool operator==(const RequestRejected&, const RequestRejected&) = default;
};

using HeadToProcess =
    std::variant<StartJobReply, SlotReady, GenerationEnded, SlotLost, RecallSlot, DemandInfeasible,
                 ActorChanged, FindActorReply, ReadStateReply, RequestRejected, GroupChanged,
                 TasksRequest, TransfersRequest, SpansRequest, DemandPlanned>;

}  // namespace mobula::internal
