// Slot accounting: the granted slots, and their sums per node (ledger), per job (dominant share),
// and per holder (a lessee with a class, or an actor). Only this class changes ledgers, so
// recomputing them from the slots always gives the same values.
// Thread: owner (one core).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/containers/ordered_runs.h"
#include "base/containers/table.h"
#include "base/id.h"
#include "base/model/jobs/job_terms.h"
#include "base/model/node_shape.h"
#include "base/time.h"
#include "scheduler/cluster_view.h"
#include "scheduler/ledger/amount_sums.h"

namespace mobula::internal::scheduler {

// A slot as it is granted, and as agents report it to a restarted head.
struct Slot {
  SlotId id;
  NodeId node;
  JobId job;
  ClassId class_id;
  ProcessId lessee;  // empty for an actor slot
  ActorId actor;     // empty for a task slot
  Allocation allocation;
  bool lent = false;    // blocked: CPU and executor place are released
  bool spread = false;  // placed by the spread strategy
  // A bundle of a placement group: a slot without an executor, which contains other slots.
  GroupId bundle_of;
  std::int32_t bundle = -1;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// The kind of executor place that a slot uses.
inline Tenant tenant_of(const Slot& slot) {
  if (!slot.bundle_of.empty()) return Tenant::bundle;
  return slot.actor.empty() ? Tenant::task : Tenant::actor;
}
inline Occupancy occupancy_of(const Slot& slot) { return {tenant_of(slot), slot.lent}; }

// A process or actor that requests or holds slots.
struct HolderKey {
  ProcessId lessee;
  ActorId actor;
  JobId job;
  ClassId class_id;
  friend auto operator<=>(const HolderKey&, const HolderKey&) = default;
  std::size_t row_hash() const {
    const RowHash hash;
    return (hash(lessee) * 3 ^ hash(actor)) * 3 ^ hash(class_id);  // a class belongs to one job
  }
};
HolderKey holder_of(const Slot& slot);
// Tasks of a class wait as one, and so do actors of it, which have a separate limit.
ClassKey class_of(const HolderKey& key);

struct Demand;  // pending_demands.h

// Slots of one holder.
struct Holder {
  std::int64_t slots = 0;
  std::int64_t recalled = 0;
  Demand* demand = nullptr;  // its demand; the row stays while a demand exists
};

// Progress of ending the work in a slot.
enum class Ending : std::uint8_t {
  unasked,
  requested,  // its lessee was queried
  allowed,    // the lessee permits it
  ordered,    // the lessee was ordered to end it
  refused,    // the lessee does not permit it
};

struct HeldSlot {
  Slot slot;
  std::uint64_t sequence = 0;  // order of allocation
  Time granted_at;             // in the distant past for a restored slot
  bool recalled = false;
  Ending ending = Ending::unasked;
  Time recalled_at;       // time of the latest recall or query
  bool resident = false;  // its executor is idle and holds results that it can store
  // it got reserved capacity that was open, and has not started: no recall yet
  bool passed = false;
  Holder* holder = nullptr;
  Node* node = nullptr;  // stays valid while it has slots
};

// The rest of a job's quota, reserved against its other classes.
struct WithheldQuota {
  ClassKey owner;
  Time waiting_since;  // start of the owner's wait
  ResourceSet wanted;  // upper limit of the owner's need
  ReservationGate withheld;
};

class SlotAccounting {
 public:
  struct Job {
    JobTerms terms;
    std::uint64_t sequence = 0;
    AmountSums held;                                // resources of its slots, without released CPU
    AmountSums returning;                           // recalled part of `held`
    OrderedRuns<std::uint64_t, SlotId> task_slots;  // by sequence
    std::int64_t slots = 0;                         // including actor slots
    bool ended = false;                             // removed when its last slot is released
    bool share_changed = false;                     // since the last take_changed_jobs()
    std::int64_t share = 0;                         // value for the totals of `share_version`
    std::uint64_t share_version = 0;
    bool quota_freed = false;     // resources for which it may have other use were freed
    std::int64_t lent_slots = 0;  // slots whose tasks are blocked
    std::optional<WithheldQuota> withheld;
  };
  explicit SlotAccounting(ClusterView& cluster) : cluster_(cluster) {}

  // Adds a slot that is already allocated on the ledger of the node. `known` is the row of the
  // holder, if the caller has it. Returns that row.
  Holder& granted(const Slot& slot, Time now, Holder* known) { return add(slot, now, known); }
  // Adds a slot that its agent reports, or a bundle, whatever is free. False if the slot is known,
  // or its node or bundle is not.
  bool restore(const Slot& slot);
  // Returns false if the slot is unknown. The following functions do the same, and repeating them
  // changes nothing.
  bool release(SlotId id);
  bool release_cpu(SlotId id);
  bool reacquire_cpu(SlotId id);
  bool mark_recalled(SlotId id, Time now);
  // The slot is recalled, and its lessee is queried about the running work or ordered to end it.
  bool mark_ending(SlotId id, Ending ending, Time now);
  // Records the reply: allowed or refused. False if no query is open.
  bool mark_answer(SlotId id, Ending answer);
  bool mark_passed(SlotId id, bool passed);
  bool mark_resident(SlotId id, bool resident);
  // Reallocates the slots of the node after its ledger was replaced.
  void rebook(Node& node);

  void set_terms(JobId job, const JobTerms& terms);
  // Default terms if the job has none.
  const JobTerms& terms(JobId job) const;
  // While granted slots may be unrestored, a quota allows no new ones.
  void set_all_known(bool known);
  // Why the job may not hold `amounts` in addition to its slots or, with `alone`, ever. CPU that a
  // blocked slot released does not count. Device memory counts as one device until its fraction is
  // known.
  std::optional<Reason> over_quota(JobId job, const ResourceSet& amounts, bool alone = false) const;
  // Number of further slots of `each` that the quota of the job allows, if the job held `besides`
  // in addition to its slots.
  std::int64_t slots_within_quota(JobId id, const ResourceSet& each,
                                  const ResourceSet& besides = {}) const;
  Job& job_row(JobId id);
  // The reserved rest of its quota has opened: re-examines all classes that wait for it.
  void quota_opened(JobId id) { share_changed(id, job_row(id), true); }
  // Jobs whose share changed since the last call, apart from changes of the cluster totals.
  std::vector<JobId> take_changed_jobs();
  // Returns true if quota of the job was freed since the last call.
  bool take_quota_freed(JobId job);
  void end_job(JobId job);
  // Millionths of the scarcest resource that the job holds, divided by its weight.
  std::int64_t share(JobId id);
  // The share, recomputed.
  std::int64_t present_share(JobId id) const;
  // The share without recalled slots and with `extra` added.
  std::int64_t lasting_share(JobId id, const ResourceSet& extra = {}) const;
  // The share without `taken` and without the part of `allocation` in one slot.
  std::int64_t share_without(JobId id, const ResourceSet& taken,
                             const Allocation& allocation) const;

  const HeldSlot* find(SlotId id) const { return slots_.find(id); }
  const Table<JobId, Job>& jobs() const { return jobs_; }
  // Zeros for a holder without slots.
  Holder holder(const HolderKey& key) const;
  // The row of a holder, which stays until `unlink`; null if it holds nothing.
  Holder* link(const HolderKey& key, Demand& demand);
  void unlink(const HolderKey& key);
  std::vector<SlotId> slots_on(NodeId node) const;
  // Slots in bundles of the group.
  std::set<SlotId> slots_in(GroupId group) const;

  // Recomputes all sums from the slots. Empty, or the first difference.
  std::string verify() const;

 private:
  Holder& add(const Slot& slot, Time now, Holder* known);
  void share_changed(JobId id, Job& job, bool freed);
  std::int64_t share_of(const Job& job, const ResourceSet& extra, bool lasting) const;

  ClusterView& cluster_;
  Table<SlotId, HeldSlot> slots_;  // in order of allocation
  Table<JobId, Job> jobs_;
  Table<HolderKey, Holder> holders_;
  std::map<GroupId, std::set<SlotId>> in_group_;
  bool all_known_ = true;
  std::vector<JobId> changed_jobs_;
  std::uint64_t sequence_ = 0;
};

}  // namespace mobula::internal::scheduler
