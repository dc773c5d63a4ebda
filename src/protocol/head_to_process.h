// What the head says to a process (driver or executor), relayed by the process's agent. Plain
// structs; the order of alternatives is the wire number.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "model/node_shape.h"
#include "model/reason.h"
#include "model/task.h"
#include "protocol/program.h"
#include "protocol/span_facts.h"
#include "protocol/task_facts.h"
#include "protocol/transfer_facts.h"

namespace mobula::internal {

struct JobStarted {
  JobId job;
  std::string name_space;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &JobStarted::job), field("name_space", &JobStarted::name_space));
  }
  friend bool operator==(const JobStarted&, const JobStarted&) = default;
};

// A slot is ready for calls: its first generation, or the next one after an exit.
struct SlotReady {
  SlotId slot;
  ClassId demand_class;
  NodeId node;
  std::uint32_t generation = 0;
  Endpoint endpoint;
  EndCause previous;  // generation > 0: how the one before ended
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotReady::slot), field("demand_class", &SlotReady::demand_class),
                 field("node", &SlotReady::node), field("generation", &SlotReady::generation),
                 field("endpoint", &SlotReady::endpoint), field("previous", &SlotReady::previous));
  }
  friend bool operator==(const SlotReady&, const SlotReady&) = default;
};

// The process of a generation is gone; the next follows as SlotReady, or SlotLost. To be believed
// only after the call stream is drained.
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

// What is to become of the task that runs in a recalled slot.
enum class RunningTask : std::uint8_t {
  finishes = 0,
  is_asked_about = 1,  // PreemptionAnswer: whether it may be ended, to run again elsewhere
  ends = 2,            // where it may be ended; else PreemptionAnswer
};

// Take back the unstarted, return the slot when the running task is done.
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

// No present node can ever satisfy the class (or the actor). `fatal`: the waiting fail with it.
struct DemandInfeasible {
  ClassId demand_class;
  ActorId actor;  // set for an actor's placement
  std::vector<NodeReason> reasons;
  std::string summary;
  bool fatal = false;
  bool group_removed = false;  // because its placement group was removed
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

// The head has placed as much of a demand as fits now. Sent if Demand::report_plan asked for it.
struct DemandPlanned {
  ClassId demand_class;
  std::uint64_t version = 0;     // version of the latest Demand that the plan includes
  std::vector<SlotId> starting;  // granted to the process for this class, and not ready yet; at most 1024
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
  std::uint64_t version = 0;  // of this actor's news, rising within a head epoch
  ActorState state = ActorState::placing;
  std::uint32_t incarnation = 0;   // generations started so far; 1 is the first
  Endpoint endpoint;               // alive
  EndCause cause;                  // restarting, dead
  bool refused = false;            // dead because the request itself was refused (name taken, ...)
  ValueRecord construction_error;  // dead because the constructor threw
  std::int32_t max_task_retries = 0;
  std::int32_t max_pending_calls = -1;  // unfinished calls of one calling process; -1: unlimited
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
  std::uint64_t version = 0;  // of this group's news, rising within a head epoch
  GroupState state = GroupState::pending;
  bool refused = false;      // removed because the request itself was refused (name taken, ...)
  bool infeasible = false;   // the nodes present can never hold it
  std::string why;           // it is removed, or infeasible
  std::string missing{};     // infeasible: resource that no node has for it; may be empty
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &GroupChanged::group), field("version", &GroupChanged::version),
                 field("state", &GroupChanged::state), field("refused", &GroupChanged::refused),
                 field("infeasible", &GroupChanged::infeasible), field("why", &GroupChanged::why),
                 field("missing", &GroupChanged::missing));
  }
  friend bool operator==(const GroupChanged&, const GroupChanged&) = default;
};

// Answer to FindActor, and to CreateActor with get_if_exists where the name was taken: then
// `wanted` is the actor that was asked for and `actor` the one that has the name.
struct ActorFound {
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
    return visit(field("request", &ActorFound::request), field("found", &ActorFound::found),
                 field("wanted", &ActorFound::wanted), field("actor", &ActorFound::actor),
                 field("class_name", &ActorFound::class_name),
                 field("class_key", &ActorFound::class_key),
                 field("owner_node", &ActorFound::owner_node), field("owner", &ActorFound::owner),
                 field("detached", &ActorFound::detached),
                 field("max_task_retries", &ActorFound::max_task_retries),
                 field("max_pending_calls", &ActorFound::max_pending_calls));
  }
  friend bool operator==(const ActorFound&, const ActorFound&) = default;
};

struct StateRead {
  std::uint64_t request = 0;
  std::string json;   // one document, as `mobula list -o json` prints it
  std::string error;  // not empty: the read was refused
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &StateRead::request), field("json", &StateRead::json),
                 field("error", &StateRead::error));
  }
  friend bool operator==(const StateRead&, const StateRead&) = default;
};

// The job has ended, and nothing of it runs any more: what its executors printed has been told. To
// its driver, by way of its agent.
struct JobOver {
  JobId job;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &JobOver::job));
  }
  friend bool operator==(const JobOver&, const JobOver&) = default;
};

struct RequestRefused {
  JobId job;
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &RequestRefused::job), field("why", &RequestRefused::why));
  }
  friend bool operator==(const RequestRefused&, const RequestRefused&) = default;
};

using HeadToProcess =
    std::variant<JobStarted, SlotReady, GenerationEnded, SlotLost, RecallSlot, DemandInfeasible,
                 ActorChanged, ActorFound, StateRead, RequestRefused, GroupChanged,
                 AskTasks, AskTransfers, AskSpans, DemandPlanned>;

}  // namespace mobula::internal
