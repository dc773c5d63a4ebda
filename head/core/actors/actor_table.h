// Actors from creation to death: placement, restarts, names, and watchers. Detached and named
// actors are in the journal, and the head does nothing for them before their row is durable.
// Thread: owner (one HeadCore).
// Units: the executor of generation g of a slot runs incarnation g + 1 of the actor, which counts
// when the executor replies.
// Not: constructors, which run in executors; counts of handles, which agents keep.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/deadline_map.h"
#include "base/containers/grouped_ids.h"
#include "base/containers/table.h"
#include "base/time.h"
#include "head/core/records/rows.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct HeadTables;
struct Slot;
struct Survivors;

struct Actor {
  ActorRow row;            // includes the spec
  std::string name_space;  // name space of the spec, otherwise of its job
  NodeId owner_node;
  bool fail_if_infeasible = false;
  bool durable = true;  // false until the journal has the row
  ActorState state = ActorState::placing;
  std::uint64_t version = 0;
  SlotId slot;  // empty: no slot
  NodeId node;
  Endpoint endpoint;
  EndCause cause;
  bool refused = false;
  ValueRecord construction_error;
  bool ending = false;      // must not be restarted
  bool unheld = false;      // its last handle was released after a process had found it by name
  bool moving = false;      // leaves a drained node: the loss of this executor uses no restart
  std::string drained_why;  // reason if a drain ends this command
  bool waits = false;       // the scheduler has a demand for its slot
  Time waiting_since;
  // Earliest next placement. Set for an exclusive actor whose node became silent, because it may
  // still run there. Also the backoff after a termination for lack of memory or repeated failures
  // to start.
  std::optional<Time> not_before;
  std::set<NodeId> cut_off;  // nodes whose callers could not reach an incarnation
  int memory_deaths = 0;
  int failed_starts = 0;  // consecutive
  std::set<ProcessId> watchers;

  const ActorSpec& spec() const { return row.spec; }
  // True if the agent may have received the order to start the command, but has not reported the
  // result. The command may then have run.
  bool may_have_run() const { return row.order.attempt > row.incarnation; }
  bool journalled() const { return row.spec.detached || !row.spec.name.empty(); }
};

// The loss of an executor uses up a restart, with these exceptions:
// - The actor moves off a drained node.
// - The program cannot start on the node.
// - The node died before the actor was ever alive there.
// - The actor was lost while the head was away, and it is detached or was never alive.
class ActorTable {
 public:
  explicit ActorTable(HeadTables& tables) : tables_(tables) {}

  void restore(const ActorRow& row);
  void recovery_ended();

  // Requests of processes.
  void create(const CreateActor& message);
  // Adds the actor of a submitted job. It is detached, has no owner, and ends with its command. The
  // row of its job exists.
  void submit(const ActorSpec& spec);
  void stop_entry(ActorId id, const std::string& why);
  // The journal has written the actor's row, or could not write it.
  void durable(ActorId id);
  void not_durable(ActorId id, const std::string& why);
  // `process`, of job `requesting_job`, is notified when the actor is dead.
  void end(ProcessId process, JobId requesting_job, const EndActor& message);
  // `requesting_job` is the job of the process.
  void watch(ProcessId process, JobId requesting_job, const WatchActor& message);
  // Handles a caller that cannot reach the executor. A caller of the actor's job terminates the
  // executor. A caller of another job loses its handle.
  void unreachable(ProcessId caller, JobId requesting_job, const WatchActor& message);
  void find_by_name(ProcessId process, JobId job, const FindActor& message);
  void process_ended(ProcessId process, const EndCause& cause);
  // Assigns actors whose owners exited as planned to their jobs, until the node that counts their
  // handles reports that no handle is left.
  void entrusted(const std::vector<EntrustedActor>& actors);
  // Ends actors of the job, except detached ones and those that a process in `survivors` owns.
  void job_ended(JobId job, const Survivors& survivors);
  // Whether one of these processes owns the actor or, if its job owns it, has a handle.
  static bool survives(const Actor& actor, const std::set<ProcessId>& processes);
  // Whether the job has a detached actor that is not dead.
  bool has_detached(JobId job) const;
  // Moves actors that may be restarted off the node without using up a restart.
  void leave_node(NodeId node, const std::string& why);
  // Terminates the commands on the node that may not move, each its grace before `deadline`.
  // Returns when the next one is due.
  std::optional<Time> hasten_entries(NodeId node, Time deadline, const std::string& why);
  // Terminates the remaining actors on the node. Actors that may be restarted start elsewhere.
  // Returns the number of slots that must still end.
  std::size_t end_on_node(NodeId node, const std::string& why);
  // Ends actors that run in the group or wait for a bundle of it.
  void group_removed(GroupId group, const std::string& why);
  // Ends all actors, including detached ones.
  void end_all(const std::string& why);

  // Placement. granted() fills in the fields that the agent needs and returns false if the actor no
  // longer needs a slot.
  bool granted(const scheduler::Slot& grant, StartSlot& start);
  void infeasible(const scheduler::Infeasible& report);
  // Ends the waiting actors of these classes that have never been alive and that no present node
  // can hold. `never` has reasons by id of the class.
  void fail_unserved(const std::map<std::string, std::string>& never);
  // Adds the demands of the job's waiting actors again after the scheduler dropped all demands of
  // the job.
  void demand_again(JobId job);
  const DemandClass* demand_of(ActorId id) const;
  // Nodes that must reach the next executor of the actor.
  std::vector<NodeId> callers_of(const Actor& actor) const;

  // Reports of agents.
  void started(ActorId id, const Slot& slot);
  void constructed(const ActorConstructed& message);
  // Handles the end of a command, which may have occurred while no head was running.
  void entry_ended(NodeId node, const EntryEnded& message);
  void slot_gone(ActorId id, SlotId slot, const EndCause& cause);
  void node_died(NodeId node, bool silently);
  bool may_go_on(const SlotFact& fact) const;
  void adopt(const SlotFact& fact, NodeId node);
  // Withdraws start orders of an earlier head that the agent does not know: those commands never
  // ran.
  void agent_stated(ProcessId agent, const Facts& facts);
  // The order to start a command was not sent.
  void order_withdrawn(ActorId id);

  // Removes the oldest dead actors beyond the limit, at the end of a step.
  void settle() { forget_oldest(); }
  void tick();
  std::optional<Time> next_deadline() const;
  // False also for an actor whose name was released before its end.
  bool has_name(const Actor& actor) const;
  const Actor* find(ActorId id) const { return rows_.find(id); }
  // Actors with a slot on the node.
  const std::set<ActorId>& on_node(NodeId node) const { return by_node_.of(node); }
  const Table<ActorId, Actor>& rows() const { return rows_; }

 private:
  using Name = std::pair<std::string, std::string>;  // name space and name

  Actor& add(ActorRow row, std::string name_space);
  void entrust(Actor& actor);
  void end_unheld(const EntrustedActor& fact);
  bool refuse_create(const CreateActor& message, const std::string& name_space);
  void refuse(const ActorSpec& spec, const std::string& why);
  void place(Actor& actor);
  void set_slot(Actor& actor, SlotId slot, NodeId node);
  SlotId clear_slot(Actor& actor);
  void lose(Actor& actor, const EndCause& cause);
  // Settles an order without a reply: as executed if `nobody_knows` its result, otherwise as never
  // given. Returns whether it counts as executed.
  bool settle_order(Actor& actor, bool nobody_knows);
  // Handles an actor that no node reports after a restart of the head. `unheard`: a command whose
  // order may have been executed. Returns false if the actor is dead.
  bool lost_while_away(Actor& actor, bool unheard);
  enum class Manner { orderly, abrupt };
  void die(Actor& actor, const EndCause& cause, bool refused = false,
           Manner manner = Manner::orderly);
  void finish(Actor& actor, const std::string& why);
  void leaves(ProcessId executor, ActorId id);
  static void shrink(Actor& actor);
  void release_name(const Actor& actor);
  void pass_name_on(const Actor& ending);
  void end_if_unheld(Actor& actor);
  void remember_finder(ProcessId process, ActorId actor);
  void become(Actor& actor, ActorState state);
  void note(const Actor& actor) const;
  void notify(const Actor& actor, ProcessId process) const;
  void notify_unknown(ActorId id, ProcessId process) const;
  void write_row(const Actor& actor, bool gated = false);
  void forget_oldest();
  void end_all_of(const std::set<ActorId>& actors, const EndCause& cause);
  void unlink(ProcessId process, ActorId id);
  std::string name_space_of(JobId job, const std::string& stated) const;

  HeadTables& tables_;
  Table<ActorId, Actor> rows_;
  std::map<Name, ActorId> names_;
  std::deque<ActorId> dead_;  // oldest first; beyond the limit the oldest are removed
  // Actors that their jobs own: alive, or still expected after a restart of the head.
  std::set<ActorId> entrusted_;
  // Actors that processes watch before their creation, with the end of the wait.
  DeadlineMap<ActorId> orphans_;
  GroupedIds<ActorId, ProcessId> orphan_watchers_;
  GroupedIds<ProcessId, ActorId> orphans_of_;
  DeadlineMap<ActorId> delayed_;  // actors with not_before that wait for it
  // Actors that are not dead, by job and by the placement group that they need.
  GroupedIds<JobId, ActorId> by_job_;
  GroupedIds<GroupId, ActorId> by_group_;
  GroupedIds<NodeId, ActorId> by_node_;  // actors with a slot
  // Actors that a process of the job wants to end and that no node has reported yet.
  std::map<std::pair<JobId, ActorId>, ProcessId> ended_early_;
  std::map<ProcessId, std::set<ActorId>> by_process_;  // owned and watched actors
  // Orders of earlier heads, by agent, during recovery.
  std::map<ProcessId, std::set<ActorId>> open_orders_;
};

}  // namespace mobula::internal::head
