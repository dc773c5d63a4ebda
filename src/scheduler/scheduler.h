// Decides where slots are: takes demands, gives grants, recalls and reasons. It books every
// resource of the cluster, alone; one core owns it and calls it from its loop. No clock, no I/O, no
// random choice: the same calls give the same plan. It knows nothing of processes, messages or
// persistence, and believes that a slot is free when `release` says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "model/node_shape.h"
#include "model/reason.h"
#include "model/request.h"
#include "scheduler/cluster_view.h"
#include "scheduler/groups.h"
#include "scheduler/obstacle.h"
#include "scheduler/overdrafts.h"
#include "scheduler/pending_demands.h"
#include "scheduler/placement.h"
#include "scheduler/policy.h"
#include "scheduler/preemption.h"
#include "scheduler/queue_place.h"
#include "scheduler/reclaim.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct SchedulerSettings {
  PlacementSettings placement;
  GroupSettings groups;
  ReclaimSettings reclaim;
  PreemptionSettings preemption;
  std::int32_t max_task_slots_per_node = 1000;  // those of blocked executors included
  std::size_t reasons_per_report = 100;  // 0: what can never run is not looked for
};

// What one lessee wants of one class, in full.
struct LesseeDemand {
  ProcessId lessee;
  DemandClass demand;
  std::int64_t wanted_slots = 0;  // in all: those it holds included
  Time oldest_waiting;
  Preference preference;
};

// No node that is alive or suspect can ever serve it.
struct Infeasible {
  ProcessId lessee;  // or
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
  std::optional<Reason> held_back{};  // by what its job may hold, or by whose turn it is
  bool never_allowed = false;         // held back for ever
  std::optional<Obstacle> obstacle{};  // of what is feasible and fits nowhere
  std::vector<NodeReason> nodes;  // dead ones too; Reason `fits` where it could start now
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

  // A node, or another shape of a known one, whose slots stay booked.
  void add_node(NodeId node, const NodeShape& shape, NodeState state = NodeState::alive);
  // Its slots are gone with it; returns them, bundles of groups left out.
  std::vector<Slot> remove_node(NodeId node);
  void set_node_state(NodeId node, NodeState state);
  // The program cannot start there, with the loader's message; empty: it can. `program` is a start
  // identity: a program, or a program with an environment.
  void set_program_state(NodeId node, ProgramId program, const std::string& why_not);

  // Contact between two nodes is lost (`cut`) or works: nothing is placed on one for callers on the other while it is lost.
  void set_link(NodeId one, NodeId other, bool cut);

  // Full state; wanted_slots 0 ends it.
  void set_demand(const LesseeDemand& demand);
  // One slot for one actor, granted once, on a node that all of `callers` reach.
  void add_actor_demand(ActorId actor, const DemandClass& demand, Time waiting_since, std::vector<NodeId> callers = {});
  void drop_actor_demand(ActorId actor, const DemandClass& demand);
  // A placement group; `places` as a durable record has them. Its bundles are booked by `plan`, and
  // used once it is open.
  void add_group(const GroupSpec& spec, const std::vector<BundlePlace>& places);
  void open_group(GroupId group);
  // Nothing starts in it any more. Returns the slots in its bundles, which are booked until released.
  std::vector<SlotId> remove_group(GroupId group);
  // The record of a removed group is gone: its bundles are free once nothing is in them.
  void forget_group(GroupId group);
  // What the node states is restored, slots in bundles left out: bundles that records have there are
  // booked, or lost where that is not free any more.
  void restore_bundles(NodeId node);
  const Groups& groups() const { return groups_; }
  GroupExplanation explain(const GroupSpec& spec) const;

  // Ends its demands. Returns the task slots it holds: booked until released.
  std::vector<SlotId> drop_lessee(ProcessId lessee);
  // The same for a job and its actors' slots.
  std::vector<SlotId> drop_job(JobId job);
  // Before anything is asked for in its name. Lasts until the job is dropped.
  void set_job_terms(JobId job, const JobTerms& terms);

  // Whether all slots that are out have been restored: until then quotas let nothing more be taken.
  void set_all_known(bool known);

  // For a slot nobody knows these do nothing and return false.
  bool release(SlotId slot);
  // Notes that the slot was returned and its executor ends.
  bool ends(SlotId slot, Time now);
  bool lend(SlotId slot);    // its executor blocks: CPU and executor place go to others
  bool resume(SlotId slot);  // it goes on, whatever is free
  // Its executor is ready, and its lessee knows.
  bool started(SlotId slot);
  // Its executor runs nothing and holds results: it gives way to whoever can be placed in no other way.
  bool set_resident(SlotId slot, bool resident);
  // Whether what runs in a slot recalled for preemption may be ended. False if nobody asked.
  bool answer_preemption(SlotId slot, bool may_end);
  // A slot as its agent states it, even if that overdraws the books. False if it is known already
  // or its node is not.
  bool restore(const Slot& slot);
  // The same for one that is ending already, whosever it was: booked until released.
  bool restore_leaving(const Slot& slot);

  // Grants as much as fits, asks for slots back, reports what can never run. Costs nothing if
  // nothing changed since the last call and no deadline has passed.
  Plan plan(Time now, const std::function<SlotId()>& next_slot);
  // Whether nothing more can be placed now.
  bool is_settled() const { return !dirty_; }
  // When to call `plan` though nothing changes; a time that has passed if there is more to do.
  std::optional<Time> next_deadline() const;

  Explanation explain(const Request& request, ProgramId program,
                      Tenant tenant = Tenant::task, const std::vector<NodeId>& callers = {}) const;
  // The same for what a job waits for, with what the job's terms have to do with it.
  Explanation explain(const DemandClass& demand, Tenant tenant, const std::vector<NodeId>& callers = {}) const;
  // Where it would start now by its strategy, were it its turn; empty: nowhere. Where its arguments lie is
  // not known here.
  NodeId choice(const DemandClass& demand, Tenant tenant, const std::vector<NodeId>& callers = {}) const;
  // That some node present could serve it, and its job's quota allows it. True for what does not wait.
  bool can_ever(const DemandClass& demand, Tenant tenant) const;
  // That reason alone.
  std::optional<Reason> held_back(const DemandClass& demand, Tenant tenant) const;
  // How much comes before what waits, or is only asked about; whether it fits is another matter.
  QueuePlace place_in_queue(const DemandClass& demand, Tenant tenant) const;
  QueuePlace place_in_queue(const GroupSpec& spec) const;
  // What the job's slots and bundles hold, what blocked ones lend left out.
  ResourceSet held_by(JobId job) const;
  std::vector<NodeUse> node_use() const;
  // Sums over nodes that are not dead.
  Use cluster_use() const;
  const Slot* find_slot(SlotId slot) const;
  std::vector<SlotId> slots_on(NodeId node) const { return books_.slots_on(node); }
  const ClusterView& cluster() const { return cluster_; }

  // Recounts the books from the slots. Empty, or the first difference.
  std::string verify_books() const;

 private:
  bool place(Time now, const std::function<SlotId()>& next_slot, Plan& plan);
  void report_infeasible(Plan& plan);

  SchedulerSettings settings_;
  ClusterView cluster_;
  SlotBooks books_;
  PendingDemands pending_;
  Groups groups_;
  Reclaimer reclaimer_;
  Overdrafts overdrafts_;
  EndingDevices ending_;
  Preemptor preemptor_;
  std::vector<GroupNews> group_news_;  // since the last plan
  bool dirty_ = false;
  Time last_plan_;
};

}  // namespace mobula::internal::scheduler
