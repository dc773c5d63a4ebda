// The leases: which slots are out, on which node, for which lessee or actor, and what lessees still
// want. Carries the scheduler's plan to agents and lessees and the agents' news to lessees and the
// scheduler. Books nothing itself: a slot's resources are free when its agent says it is gone, or
// when its node is dead. Owned by one HeadCore; not thread-safe.
//
// An agent tells a lessee on its own node what becomes of a slot; the head tells lessees elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/table.h"
#include "head/core/failed_starts.h"
#include "head/core/node_table.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct Parts;

// What it holds of its node stands in the scheduler's books.
struct Slot {
  SlotId id;
  NodeId node;
  JobId job;
  ClassId class_id;
  ProgramId program;
  ProgramId start_identity;  // the program with its environment
  std::string name;  // of a task for which it was granted, for people; not known after a head restart
  ProcessId lessee;  // empty: an actor's slot
  ActorId actor;
  std::uint32_t generation = 0;
  bool ready = false;      // the generation answers calls
  bool reported = false;   // the lessee knows from DemandPlanned that it starts
  bool known = false;      // the lessee counts it among what it holds
  bool counted = false;    // in the total of its lessee's demand, though not known: it was stopping
  bool lent = false;
  bool departed = false;   // stopping: its executor awaits calls that it has submitted, and holds no resources
  bool stopping = false;
  bool ends_there = false;  // its agent ends it of its own accord
  bool recalled = false;
  bool preempting = false;  // its lessee was asked about what runs in it, or to end it, and has not refused
  Residence residence;     // what its executor, which runs nothing, holds of its results
  Time resident_since;     // with any
  std::string over_share;  // its executor has more of a device than its share: in words
  Endpoint endpoint;
  std::uint64_t started_by = 0;  // number of its StartSlot; 0: stated by the agent; not_ordered: it waits for the disk
  std::uint64_t stopped_by = 0;  // number of its first StopSlot; 0: none was sent
};

inline constexpr std::uint64_t not_ordered = ~std::uint64_t{0};

// An order that waits for the disk; what ended it meanwhile.
struct HeldOrder {
  StartSlot start;
  std::string stop_why;
};

// What of a job lives on when it ends: the slots of its detached actors, and of what those, and what
// they have started, have asked for.
struct Survivors {
  std::set<SlotId> slots;
  std::set<ProcessId> processes;
};

struct DemandRow {
  Demand demand;
  std::int64_t total = 0;  // slots in all: booked ones included
  Time oldest_waiting;
};

// Since the head was started.
struct PreemptionCounts {
  std::uint64_t asked = 0;    // slots whose task was to be ended, or asked about
  std::uint64_t refused = 0;  // of those, what ran in them may not run again
};

class SlotTable {
 public:
  using DemandKey = std::pair<ProcessId, ClassId>;

  explicit SlotTable(Parts& parts) : parts_(parts) {}

  // Nodes. `node_joined` returns the stated slots that may not go on.
  std::vector<SlotId> node_joined(const Node& node, const Facts& facts);
  void node_changed(const Node& node);
  // Devices have come to it; what it holds stays booked.
  void node_reshaped(const Node& node);
  void node_died(NodeId node, bool silently, const EndCause& cause);
  void recovery_ended();
  void recall_all(NodeId node, const std::string& why);
  // What is left on the node, whatever it does.
  std::size_t stop_all(NodeId node, const std::string& why);
  // Tells lessees of slots that they may not know of, since a head before this one granted them.
  void announce();
  // The same for all slots of a lessee, to which news may have been lost with its agent.
  void announce_to(ProcessId lessee);

  // Lessees.
  void demand(ProcessId lessee, const Demand& message);
  void returned(ProcessId lessee, SlotId slot);
  void preemption_answered(ProcessId lessee, const PreemptionAnswer& message);
  void held(ProcessId lessee, const HoldSlot& message);
  void lessee_ended(ProcessId lessee, const EndCause& cause);
  Survivors survivors(JobId job) const;
  void job_ended(JobId job, const Survivors& kept);
  // Whether a slot of the job still ends: its agent has not said that it is gone.
  bool ends_in(JobId job) const;

  // Agents.
  void started(NodeId node, const SlotStarted& message);
  void generation_ended(NodeId node, const SlotGenerationEnded& message);
  void gone(NodeId node, const SlotGone& message);
  void lent(NodeId node, const SlotLent& message);
  void resides(NodeId node, const SlotResides& message);
  void over_share(NodeId node, const SlotOverShare& message);
  // The agent's word, after the command `applied_through`, against the head's: what only one of
  // them knows ends, and what the head has missed is made up for.
  void reconcile(NodeId node, const Facts& facts, std::uint64_t applied_through);

  // Ends what runs in the slot; its books stay until its agent says it is gone.
  void stop(SlotId slot, bool graceful, const std::string& why, Duration store_within = {}, bool orderly = false);
  // Ends `users`, which are in bundles of the group, and what waits for one.
  void group_removed(GroupId group, const std::set<SlotId>& users, const std::string& why);
  // What is started at most once is told to its agent when that is on disk.
  void order_durable(SlotId slot);
  void order_not_durable(SlotId slot, const std::string& why);
  // Grants what can be granted, once the tables have settled for this step.
  void plan();

  // What an agent that agrees with the head states of its slots (AgentFrame::slots_digest) when it
  // has carried out the commands up to `applied_through`. Nothing where that cannot be told: it has
  // slots that the head never knew, and has not been told yet to end them.
  std::optional<std::uint64_t> digest(NodeId node, std::uint64_t applied_through) const;
  // Programs that could not be started may be tried again.
  void tick();
  std::optional<Time> next_deadline() const { return failed_starts_.next_deadline(); }
  const Slot* find(SlotId slot) const { return rows_.find(slot); }
  const Table<SlotId, Slot>& rows() const { return rows_; }
  const std::map<DemandKey, DemandRow>& demands() const { return demands_; }
  // A lessee cannot reach the node of its slot.
  void link_lost(ProcessId lessee, const ReturnSlot& message);
  const PreemptionCounts& preemptions() const { return preemptions_; }

 private:
  Slot* on_node(NodeId node, SlotId slot);
  std::set<SlotId> slots_on(NodeId node) const;
  bool restore(NodeId node, const SlotFact& fact);
  void catch_up(NodeId node, const SlotFact& fact, std::uint64_t applied_through);
  bool may_go_on(const SlotFact& fact) const;
  void add(Slot slot);
  void remove(SlotId slot, const EndCause& cause, bool tell_lessee);
  void relay(const Slot& slot, HeadToProcess message);
  static SlotReady ready_of(const Slot& slot);
  void tell_ready(const Slot& slot, const EndCause& previous);
  void learn(Slot& slot);
  void learn_heard(ProcessId lessee, const std::vector<SlotId>& heard);
  void set_demand(ProcessId lessee, const DemandRow& row);
  void report_plans();
  void refuse_demand(ProcessId lessee, ClassId demand_class, const std::string& why);
  std::int64_t count_known(ProcessId lessee, ClassId demand_class);
  void carry_out(scheduler::Slot grant);
  void order(Slot slot, StartSlot start);
  void recall(Slot& slot, const std::string& why);
  void preempt(Slot& slot, const scheduler::Recall& recall);
  void departed(Slot& slot, const EndCause& cause);
  void report(const scheduler::Infeasible& infeasible);
  void report_held_back();
  void remember_failed_start(NodeId node, ProgramId identity, const std::string& why);

  void add_stranger(NodeId node, const SlotFact& fact, std::uint64_t ends_by);
  void stranger_gone(NodeId node, SlotId slot);
  void forget_strangers(NodeId node);

  Parts& parts_;
  Table<SlotId, Slot> rows_;
  std::map<ProcessId, std::set<SlotId>> by_lessee_;
  std::map<NodeId, std::set<SlotId>> by_node_;
  std::map<DemandKey, DemandRow> demands_;
  std::set<DemandKey> plan_reports_;  // demands to answer with DemandPlanned
  std::map<SlotId, ProcessId> unseen_holds_;  // claimed while their nodes are still expected
  std::vector<scheduler::Infeasible> held_back_;  // until all nodes are there
  std::set<SlotId> unannounced_;
  // Slots that the head does not know and that end, with the number of the command that says so.
  std::map<NodeId, std::map<SlotId, std::uint64_t>> strangers_;
  std::map<SlotId, HeldOrder> held_orders_;
  FailedStarts failed_starts_;
  PreemptionCounts preemptions_;
  std::uint64_t counter_ = 0;
};

// Whether no other node will do.
bool insists_on_node(const Request& request);
// Whether no node decides, but the job, which may never have so much.
bool is_forbidden(const std::vector<NodeReason>& reasons);
// One sentence for people: what was asked and why no node can ever give it.
std::string summary_of(const Request& request, const std::vector<NodeReason>& reasons);

}  // namespace mobula::internal::head
