// The actors: from their creation by an owner to their death, through placements and restarts;
// their names; and who wants to know. Detached and named ones are in the journal, and nothing is
// done for them before they are. The constructor runs in the actor's executor; handles are counted
// by agents; neither is this table's. Owned by one HeadCore; not thread-safe.
//
// `incarnation` counts executors that answered: generation g of a slot is incarnation g + 1. Losing
// an executor uses up a restart, unless the program cannot start on the node, the node died before
// the actor was ever alive there, or it was lost while the head was away. A command has no constructor: from the
// moment when its agent may have been told to start it, it may have run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/table.h"
#include "base/time.h"
#include "head/core/rows.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct Parts;
struct Slot;
struct Survivors;

struct Actor {
  ActorRow row;            // with the spec
  std::string name_space;  // the spec's, or its job's
  NodeId owner_node;
  bool fail_if_infeasible = false;
  bool durable = true;     // or needs no journal
  ActorState state = ActorState::placing;
  std::uint64_t version = 0;
  SlotId slot;             // empty: has none
  NodeId node;
  Endpoint endpoint;
  EndCause cause;
  bool refused = false;
  ValueRecord construction_error;
  bool ending = false;     // not to be restarted
  bool unheld = false;     // its last handle was released, and a process has found it by its name since
  bool moving = false;     // off a node that is drained: the loss of this executor is no restart
  std::string drained_why; // a command that ends since its node is drained
  bool waits = false;      // the scheduler knows that it wants a slot
  Time waiting_since;
  // Exclusive, and its node fell silent: it may still run there. Or a pause: it was ended for lack of
  // memory, or could not be started more than once.
  std::optional<Time> not_before;
  std::set<NodeId> cut_off;  // nodes with callers that could not reach an incarnation
  int memory_deaths = 0;
  int failed_starts = 0;  // in a row
  std::set<ProcessId> watchers;

  const ActorSpec& spec() const { return row.spec; }
  // Told to start, for all that is known, and not heard of since.
  bool may_have_run() const { return row.order.attempt > row.incarnation; }
  bool journalled() const { return row.spec.detached || !row.spec.name.empty(); }
};

class ActorTable {
 public:
  explicit ActorTable(Parts& parts) : parts_(parts) {}

  void restore(const ActorRow& row);
  void recovery_ended();

  // Processes.
  void create(const CreateActor& message);
  // A submitted job's, whose own job is there: detached, without an owner, with a command as its life.
  void submit(const ActorSpec& spec);
  void stop_entry(ActorId id, const std::string& why);
  void durable(ActorId id);
  void not_durable(ActorId id, const std::string& why);
  // `process`, of job `asking`, hears when the actor is dead.
  void end(ProcessId process, JobId asking, const EndActor& message);
  // `asking`: job of the process.
  void watch(ProcessId process, JobId asking, const WatchActor& message);
  // A caller cannot reach the executor: a caller of the actor's job ends it, and another caller loses its handle.
  void unreachable(ProcessId caller, JobId asking, const WatchActor& message);
  void find_by_name(ProcessId process, JobId job, const FindActor& message);
  void process_ended(ProcessId process, const EndCause& cause);
  // Actors whose owners have exited as planned belong to their job, until the node that counts their handles states that
  // no handle is left.
  void entrusted(const std::vector<EntrustedActor>& actors);
  // Ends those of the job that are not detached and that none of `kept` owns.
  void job_ended(JobId job, const Survivors& kept);
  // Whether one of these processes owns it or, if its job owns it, has a handle.
  static bool is_kept(const Actor& actor, const std::set<ProcessId>& processes);
  // Whether a detached actor of the job lives.
  bool has_detached(JobId job) const;
  // Moves those that may be restarted off the node, at no cost in restarts.
  void leave_node(NodeId node, const std::string& why);
  // Tells the commands on the node that may not move to end, each its grace before `deadline`. When the next
  // one is due.
  std::optional<Time> hasten_entries(NodeId node, Time deadline, const std::string& why);
  // Ends those that are still on the node; those that may be restarted are, elsewhere.
  // How many slots that leaves to end.
  std::size_t end_on_node(NodeId node, const std::string& why);
  // Ends those that are in the group, or wait for a place in it.
  void group_removed(GroupId group, const std::string& why);
  // Ends every actor, detached ones too.
  void end_all(const std::string& why);

  // Placement.
  // Fills in what the agent needs; false if the actor wants no slot any more.
  bool granted(const scheduler::Slot& grant, StartSlot& start);
  void infeasible(const scheduler::Infeasible& report);
  // The scheduler has dropped the job's demands: those of detached actors stand.
  void demand_again(JobId job);
  const DemandClass* demand_of(ActorId id) const;
  // Nodes that have to reach its next executor.
  std::vector<NodeId> callers_of(const Actor& actor) const;

  // Agents.
  void started(ActorId id, const Slot& slot);
  void constructed(const ActorConstructed& message);
  // News of a command that may have ended while there was no head.
  void entry_ended(NodeId node, const EntryEnded& message);
  void slot_gone(ActorId id, SlotId slot, const EndCause& cause);
  void node_died(NodeId node, bool silently);
  bool may_go_on(const SlotFact& fact) const;
  void adopt(const SlotFact& fact, NodeId node);
  // Commands that the agent was to start before the head was: what it does not know of never ran.
  void agent_stated(ProcessId agent, const Facts& facts);
  // The order to start a command did not go out.
  void order_withdrawn(ActorId id);

  void tick();
  std::optional<Time> next_deadline() const;
  const Actor* find(ActorId id) const { return rows_.find(id); }
  const Table<ActorId, Actor>& rows() const { return rows_; }

 private:
  using Name = std::pair<std::string, std::string>;  // name space, name
  struct Orphans {
    std::set<ProcessId> watchers;
    Time until;
  };

  Actor& add(ActorRow row, std::string name_space);
  void entrust(Actor& actor);
  void end_unheld(const EntrustedActor& fact);
  bool refuse_create(const CreateActor& message, const std::string& name_space);
  void refuse(const ActorSpec& spec, const std::string& why);
  void place(Actor& actor);
  void lose(Actor& actor, const EndCause& cause);
  // What becomes of an order that nobody has answered: it counts as carried out, or as never given. The former?
  bool settle_order(Actor& actor, bool nobody_knows);
  enum class Manner { orderly, abrupt };
  void die(Actor& actor, const EndCause& cause, bool refused = false, Manner manner = Manner::orderly);
  void finish(Actor& actor, const std::string& why);
  void release_name(const Actor& actor);
  void pass_name_on(const Actor& ending);
  void end_if_unheld(Actor& actor);
  void remember_finder(ProcessId process, ActorId actor);
  void become(Actor& actor, ActorState state);
  void note(const Actor& actor) const;
  void tell(const Actor& actor, ProcessId process) const;
  void tell_unknown(ActorId id, ProcessId process) const;
  void write_row(const Actor& actor, bool gated = false);
  void forget_oldest();
  void unlink(ProcessId process, ActorId id);
  std::string name_space_of(JobId job, const std::string& stated) const;

  Parts& parts_;
  Table<ActorId, Actor> rows_;
  std::map<Name, ActorId> names_;
  std::deque<ActorId> dead_;  // oldest first; the oldest are forgotten
  std::set<ActorId> entrusted_;  // owned by their jobs, alive or still expected after a restart of the head
  std::map<ActorId, Orphans> orphans_;  // watched before they were created
  std::set<ActorId> delayed_;           // those with not_before
  // To be ended, asked by a process of the job, and not stated by any node yet.
  std::map<std::pair<JobId, ActorId>, ProcessId> ended_early_;
  std::map<ProcessId, std::set<ActorId>> by_process_;  // owned and watched ones
  std::map<ProcessId, std::set<ActorId>> open_orders_;  // by agent: of heads before, while this one recovers
};

}  // namespace mobula::internal::head
