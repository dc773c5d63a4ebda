// Leases: the allocated slots with their nodes, lessees, and actors, and the demands of lessees.
// Sends the scheduler's plan to agents and lessees, and the reports of agents to lessees and the
// scheduler. The agent notifies lessees on its own node about a slot; the head notifies the others.
// Thread: owner (one HeadCore).
// Not: accounting, which the scheduler does. The resources of a slot are free when its agent
// reports its removal or its node is dead.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/grouped_ids.h"
#include "base/containers/table.h"
#include "head/core/nodes/node_table.h"
#include "head/core/slots/failed_starts.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct HeadTables;

// One slot. The scheduler accounts its resources.
struct Slot {
  SlotId id;
  NodeId node;
  JobId job;
  ClassId class_id;
  ProgramId program;
  ProgramId start_identity;  // the program with its environment
  // Name of one task of its demand, for users; unknown after a restart of the head.
  std::string name;
  ProcessId lessee;  // empty: slot of an actor
  ActorId actor;
  std::uint32_t generation = 0;
  bool ready = false;     // this generation answers calls
  bool reported = false;  // DemandPlanned has reported its start to the lessee
  bool known = false;     // acknowledged by the lessee
  // Part of the total of its lessee's demand although not known: it was stopping.
  bool counted = false;
  bool lent = false;
  // Stopping without resources, while its executor awaits calls that it has submitted.
  bool departed = false;
  bool stopping = false;
  bool ends_there = false;  // its agent ends it without a command
  bool recalled = false;
  bool preempting = false;    // its lessee received a preemption request and has not refused
  ResidentResults residence;  // results that its idle executor holds
  Time resident_since;        // start of its residence
  std::string over_share;     // report that its executor exceeds its share of a device
  Endpoint endpoint;
  // Number of its StartSlot; 0: reported by the agent; not_ordered: waits for the journal.
  std::uint64_t started_by = 0;
  std::uint64_t stopped_by = 0;  // number of its first StopSlot; 0: none was sent
};

inline constexpr std::uint64_t not_ordered = ~std::uint64_t{0};

// A start order that waits for the journal. `stop_why` is set if the slot was stopped before the
// order was durable.
struct HeldOrder {
  StartSlot start;
  std::string stop_why;
};

// Parts of a job that outlive its end: its detached actors, and the slots and processes that these
// requested, directly or indirectly.
struct Survivors {
  std::set<SlotId> slots;
  std::set<ProcessId> processes;
};

struct DemandRow {
  Demand demand;
  std::int64_t total = 0;  // wanted slots, including allocated ones
  Time oldest_waiting;
  // Time at which a task last left the queue, and `oldest_waiting` at that time.
  Time advanced_at;
  Time oldest_then;
};

// Counts since the start of the head.
struct PreemptionCounts {
  std::uint64_t requested = 0;  // slots whose running task was subject to preemption
  std::uint64_t refused = 0;    // slots whose running task may not run again
};

class SlotTable {
 public:
  using DemandKey = std::pair<ProcessId, ClassId>;

  explicit SlotTable(HeadTables& tables) : tables_(tables) {}

  // Changes of nodes. node_joined() returns the reported slots that may not continue.
  std::vector<SlotId> node_joined(const Node& node, const Facts& facts);
  void node_changed(const Node& node);
  // The node has more devices. Existing allocations stay.
  void node_reshaped(const Node& node);
  void node_died(NodeId node, bool silently, const EndCause& cause);
  void recovery_ended();
  void recall_all(NodeId node, const std::string& why);
  // Terminates all slots on the node. Returns their number.
  std::size_t stop_all(NodeId node, const std::string& why);
  // Notifies lessees of slots that an earlier head granted and that they may not know.
  void announce();
  // Does the same for all slots of one lessee, because notifications may have been lost with its
  // agent.
  void announce_to(ProcessId lessee);

  // Requests of lessees.
  void demand(ProcessId lessee, const Demand& message);
  void returned(ProcessId lessee, SlotId slot);
  void preemption_answered(ProcessId lessee, const PreemptionAnswer& message);
  void held(ProcessId lessee, const HoldSlot& message);
  void lessee_ended(ProcessId lessee, const EndCause& cause);
  Survivors survivors(JobId job) const;
  void job_ended(JobId job, const Survivors& survivors);
  // Whether a slot of the job is still stopping: its agent has not reported its removal.
  bool ends_in(JobId job) const;

  // Reports of agents.
  void started(NodeId node, const SlotStarted& message);
  void generation_ended(NodeId node, const SlotGenerationEnded& message);
  void gone(NodeId node, const SlotGone& message);
  void lent(NodeId node, const SlotCpuReleased& message);
  void resides(NodeId node, const SlotResident& message);
  void over_share(NodeId node, const SlotShareExceeded& message);
  // Reconciles the head with the agent's facts after the command `applied_through`. Slots that only
  // one side knows end, and missed reports are applied.
  void reconcile(NodeId node, const Facts& facts, std::uint64_t applied_through);

  // Terminates the processes in the slot. Its allocation stays until its agent reports its removal.
  void stop(SlotId slot, bool graceful, const std::string& why, Duration store_timeout = {},
            bool orderly = false);
  // Terminates `users`, which run in bundles of the group, and rejects demands for its bundles.
  void group_removed(GroupId group, const std::set<SlotId>& users, const std::string& why);
  // A job has ended. Fails queued tasks whose program no other job has.
  void refuse_absent_programs();
  // Results of the journal for start orders, which are sent only when they are durable.
  void order_durable(SlotId slot);
  void order_not_durable(SlotId slot, const std::string& why);
  // Grants slots after the tables have settled in this step.
  void plan();
  // Fails the queued tasks of these classes that no present node can hold. `never` has reasons by
  // id of the class.
  void fail_unserved(const std::map<std::string, std::string>& never);

  // Returns the digest of the slots (AgentFrame::slots_digest) that a consistent agent reports
  // after it has executed the commands through `applied_through`. Returns nothing if the agent has
  // slots that the head does not know and the command to end them is still on its way.
  std::optional<std::uint64_t> digest(NodeId node, std::uint64_t applied_through) const;
  // Allows another attempt for programs that failed to start.
  void tick();
  std::optional<Time> next_deadline() const { return failed_starts_.next_deadline(); }
  const Slot* find(SlotId slot) const { return rows_.find(slot); }
  const Table<SlotId, Slot>& rows() const { return rows_; }
  const std::map<DemandKey, DemandRow>& demands() const { return demands_; }
  // Demands that ends of jobs and groups have visited. For tests of cores.
  std::uint64_t demands_walked() const { return demands_walked_; }
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
  void remove(SlotId slot, const EndCause& cause, bool notify_lessee);
  void relay(const Slot& slot, HeadToProcess message);
  static SlotReady ready_of(const Slot& slot);
  void notify_ready(const Slot& slot, const EndCause& previous);
  void learn(Slot& slot);
  void note_received(ProcessId lessee, const std::vector<SlotId>& received);
  void set_demand(ProcessId lessee, const DemandRow& row);
  void put_demand(const DemandKey& key, DemandRow row);
  void erase_demand(const DemandKey& key);
  void report_plans();
  bool awaits_stopping_slots(const DemandKey& key) const;
  void retry_plan_reports(ProcessId lessee);
  void refuse_program(ProcessId lessee, const DemandClass& demand_class);
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

  HeadTables& tables_;
  Table<SlotId, Slot> rows_;
  std::map<ProcessId, std::set<SlotId>> by_lessee_;
  std::map<NodeId, std::set<SlotId>> by_node_;
  GroupedIds<JobId, SlotId> by_job_;
  std::map<DemandKey, DemandRow> demands_;
  GroupedIds<JobId, DemandKey> demands_of_job_;
  GroupedIds<GroupId, DemandKey> demands_of_group_;
  std::set<DemandKey> demands_of_other_programs_;  // than that of their job
  std::uint64_t demands_walked_ = 0;
  std::set<DemandKey> plan_reports_;     // demands that DemandPlanned must answer
  std::set<DemandKey> delayed_reports_;  // the same, after a slot of the lessee is released
  // Slots that lessees claim while their nodes are expected.
  std::map<SlotId, ProcessId> unseen_holds_;
  std::vector<scheduler::Infeasible> held_back_;  // deferred until all nodes have registered
  std::set<SlotId> unannounced_;
  // Slots that the head does not know and that end, with the number of the command that ends them.
  std::map<NodeId, std::map<SlotId, std::uint64_t>> strangers_;
  std::map<SlotId, HeldOrder> held_orders_;
  FailedStarts failed_starts_;
  PreemptionCounts preemptions_;
  std::uint64_t counter_ = 0;
};

// Whether the request accepts only one node.
bool insists_on_node(const Request& request);
// Whether the quota of the job forbids the request on every node.
bool is_forbidden(const std::vector<NodeReason>& reasons);
// Returns one sentence for users: the request, and why no node can ever serve it.
std::string summary_of(const Request& request, const std::vector<NodeReason>& reasons);

}  // namespace mobula::internal::head
