// Decides the nodes of slots: receives demands, and returns grants, recalls, and reasons. It alone
// allocates the resources of the cluster. Deterministic: the same calls give the same plan.
// Thread: owner (one core, called from its loop).
// Not: processes, messages, persistence, clocks, I/O. A slot is free when `release` is called.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/model/node_shape.h"
#include "base/model/reason.h"
#include "base/model/request.h"
#include "base/time.h"
#include "scheduler/blockers.h"
#include "scheduler/cluster_view.h"
#include "scheduler/groups/groups.h"
#include "scheduler/ledger/oversubscription.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/placement.h"
#include "scheduler/policy.h"
#include "scheduler/queues/pending_demands.h"
#include "scheduler/queues/preemption.h"
#include "scheduler/queues/queue_position.h"
#include "scheduler/queues/reclaim.h"

namespace mobula::internal::scheduler {

struct SchedulerSettings {
  PlacementSettings placement;
  GroupSettings groups;
  ReclaimSettings reclaim;
  PreemptionSettings preemption;
  std::int32_t max_task_slots_per_node = 1000;  // including slots of blocked executors
  std::size_t reasons_per_report = 100;         // 0: infeasible demands are not searched
};

// The complete demand of one lessee in one class.
struct LesseeDemand {
  ProcessId lessee;
  DemandClass demand;
  std::int64_t wanted_slots = 0;  // total, including held slots
  Time oldest_waiting;
  Preference preference;
};

// No present node can ever serve it. Suspect and draining nodes count as present.
struct Infeasible {
  ProcessId lessee;  // set for a lessee's demand; else `actor`
  ActorId actor;
  JobId job;
  ClassId class_id;
  std::vector<NodeReason> reasons;  // at most reasons_per_report
};

struct Plan {
  std::vector<Slot> grants;
  std::vector<Recall> recalls;
  std::vector<Infeasible> infeasible;  // each once until nodes or the demand change
  std::vector<GroupNews> groups;
  bool empty() const {
    return grants.empty() && recalls.empty() && infeasible.empty() && groups.empty();
  }
};

struct Explanation {
  bool feasible = false;
  std::optional<Reason> held_back{};   // by the quota of its job, or by the order of turns
  bool never_allowed = false;          // held back permanently
  std::optional<Blockers> blockers{};  // blockers of a feasible request that fits nowhere
  std::vector<NodeReason> nodes;  // including dead nodes; Reason `fits` if it could start there now
};

struct ResourceUse {
  Quantity total;
  Quantity available;  // never below 0
};
using Use = std::map<std::string, ResourceUse>;

struct NodeUse {
  NodeId node;
  NodeState state = NodeState::alive;
  Use resources;
  Labels labels;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerSettings& settings);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Adds a node, or changes the shape of a known one, whose slots stay allocated.
  void add_node(NodeId node, const NodeShape& shape, NodeState state = NodeState::alive);
  // The slots of the node are lost; returns them without bundles of groups.
  std::vector<Slot> remove_node(NodeId node);
  void set_node_state(NodeId node, NodeState state);
  // The program cannot start there, with the message of the loader; empty: it can. `program` is a
  // start identity: a program, or a program with an environment.
  void set_program_state(NodeId node, ProgramId program, const std::string& why_not);

  // Contact between two nodes is lost (`cut`) or works: nothing is placed on one for callers on the
  // other while it is lost.
  void set_link(NodeId one, NodeId other, bool cut);

  // Full state; wanted_slots 0 ends it.
  void set_demand(const LesseeDemand& demand);
  // One slot for one actor, granted once, on a node that all of `callers` reach.
  void add_actor_demand(ActorId actor, const DemandClass& demand, Time waiting_since,
                        std::vector<NodeId> callers = {});
  void drop_actor_demand(ActorId actor, const DemandClass& demand);
  // Adds a placement group; `locations` is the content of a durable record. `plan` allocates its
  // bundles, and members may use them once the group is open.
  void add_group(const GroupSpec& spec, const std::vector<BundleLocation>& locations);
  void open_group(GroupId group);
  // Closes the group. Returns the slots in its bundles, which stay allocated until released.
  std::vector<SlotId> remove_group(GroupId group);
  // The record of a removed group is deleted: its bundles are freed once they are empty.
  void forget_group(GroupId group);
  // The slots that the node reported are restored, except slots in bundles. Bundles of durable
  // records are now allocated there, or lost if their resources are not free.
  void restore_bundles(NodeId node);
  const Groups& groups() const { return groups_; }
  GroupExplanation explain(const GroupSpec& spec) const;

  // Ends the demands of the lessee, or of the job. Their slots stay allocated until released.
  void drop_lessee(ProcessId lessee);
  void drop_job(JobId job);
  // Must precede any request of the job. Valid until the job is dropped.
  void set_job_terms(JobId job, const JobTerms& terms);
  // Default terms if the job has none.
  const JobTerms& terms(JobId job) const { return accounting_.terms(job); }

  // True once all granted slots have been restored. Until then, quotas allow no new slots.
  void set_all_known(bool known);

  // For an unknown slot these do nothing and return false.
  bool release(SlotId slot);
  // Records that the slot was returned and that its executor exits.
  bool ends(SlotId slot, Time now);
  bool release_cpu(SlotId slot);    // its executor blocks: CPU and executor slot are released
  bool reacquire_cpu(SlotId slot);  // its executor continues, whatever is free
  // Its executor is ready, and its lessee knows.
  bool started(SlotId slot);
  // Its executor is idle and holds results: the slot yields to a request that cannot be placed
  // otherwise.
  bool set_resident(SlotId slot, bool resident);
  // Reports whether the running task of a slot that is recalled for preemption may be ended. False
  // if no query is open.
  bool answer_preemption(SlotId slot, bool may_end);
  // Restores a slot that its agent reports, even beyond the free amounts. False if the slot is
  // known or its node is not.
  bool restore(const Slot& slot);
  // Restores a slot that is already ending, of any holder: allocated until released.
  bool restore_leaving(const Slot& slot);

  // Grants as many slots as fit, recalls slots, and reports infeasible demands. Costs nothing if
  // nothing changed since the last call and no deadline has passed.
  Plan plan(Time now, const std::function<SlotId()>& next_slot);
  // Returns true if nothing more can be placed now.
  bool is_settled() const { return !dirty_; }
  // Time of the next call of `plan` without a change; in the past if work is left.
  std::optional<Time> next_deadline() const;

  Explanation explain(const Request& request, ProgramId program, Tenant tenant = Tenant::task,
                      const std::vector<NodeId>& callers = {}) const;
  // Explains a waiting request of a job, including the effect of the job's terms.
  Explanation explain(const DemandClass& demand, Tenant tenant,
                      const std::vector<NodeId>& callers = {}) const;
  // The node where it would start now by its strategy if it were next; empty: none. Ignores the
  // location of arguments.
  NodeId choice(const DemandClass& demand, Tenant tenant,
                const std::vector<NodeId>& callers = {}) const;
  // Returns true if a present node could serve it and the quota of its job allows it. True if it
  // does not wait.
  bool can_ever(const DemandClass& demand, Tenant tenant) const;
  // The reason of its job's terms alone.
  std::optional<Reason> held_back(const DemandClass& demand, Tenant tenant) const;
  // Further slots of `each` that the quota of the job allows, if the job also held `besides`.
  std::int64_t slots_within_quota(JobId job, const ResourceSet& each,
                                  const ResourceSet& besides) const {
    return accounting_.slots_within_quota(job, each, besides);
  }
  // The position of a waiting or hypothetical request, independent of whether it fits.
  QueuePosition position_in_queue(const DemandClass& demand, Tenant tenant) const;
  QueuePosition position_in_queue(const GroupSpec& spec) const;
  // Resources of the job's slots and bundles, without CPU that blocked slots released.
  ResourceSet held_by(JobId job) const;
  std::vector<NodeUse> node_use() const;
  // Empty for an unknown node.
  Use node_use(NodeId node) const;
  // Sums over nodes that are not dead.
  Use cluster_use() const;
  const Slot* find_slot(SlotId slot) const;
  std::vector<SlotId> slots_on(NodeId node) const { return accounting_.slots_on(node); }
  const ClusterView& cluster() const { return cluster_; }
  // Demands that reports of infeasible demands and ends of jobs have visited. For tests of cores.
  std::uint64_t demands_walked() const { return pending_.walked(); }

  // Recomputes the ledgers from the slots. Empty, or the first difference.
  std::string verify_books() const;

 private:
  bool place(Time now, const std::function<SlotId()>& next_slot, Plan& plan);
  void report_infeasible(Plan& plan);

  SchedulerSettings settings_;
  ClusterView cluster_;
  SlotAccounting accounting_;
  PendingDemands pending_;
  Groups groups_;
  Reclaimer reclaimer_;
  Oversubscription oversubscription_;
  EndingDevices ending_;
  Preemptor preemptor_;
  std::vector<GroupNews> group_news_;  // since the last plan
  bool dirty_ = false;
  Time last_plan_;
};

}  // namespace mobula::internal::scheduler
