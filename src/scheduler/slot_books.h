// The slots that are out, and what they add up to: per node (its ledger), per job (dominant share)
// and per holder (a lessee with a class, or an actor). The one place that changes ledgers, so that
// a recount from the slots must always give the same books. Not thread-safe: owned by one core.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/ordered_runs.h"
#include "base/table.h"
#include "base/time.h"
#include "model/job_terms.h"
#include "model/node_shape.h"
#include "scheduler/amount_sums.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

// A slot as it is granted, and as agents state it to a restarted head.
struct Slot {
  SlotId id;
  NodeId node;
  JobId job;
  ClassId class_id;
  ProcessId lessee;  // empty for an actor's slot
  ActorId actor;     // empty for a task slot
  Allocation allocation;
  bool lent = false;    // blocked: CPU and executor place are with others
  bool spread = false;  // placed to be spread
  // A bundle of a placement group: a slot without an executor, in which others have their slots.
  GroupId bundle_of;
  std::int32_t bundle = -1;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// What a slot counts for among the executor places of its node.
inline Tenant tenant_of(const Slot& slot) {
  if (!slot.bundle_of.empty()) return Tenant::bundle;
  return slot.actor.empty() ? Tenant::task : Tenant::actor;
}
inline Occupancy occupancy_of(const Slot& slot) { return {tenant_of(slot), slot.lent}; }

// Who asks for slots, or holds them.
struct HolderKey {
  ProcessId lessee;
  ActorId actor;
  JobId job;
  ClassId class_id;
  friend auto operator<=>(const HolderKey&, const HolderKey&) = default;
  std::size_t row_hash() const {
    const RowHash hash;
    return (hash(lessee) * 3 ^ hash(actor)) * 3 ^ hash(class_id);  // which is of one job
  }
};
HolderKey holder_of(const Slot& slot);
// What waits as one: tasks of a class, or actors of it, which count against another bound.
ClassKey class_of(const HolderKey& key);

struct Demand;  // pending_demands.h

// What one holder has.
struct Holder {
  std::int64_t slots = 0;
  std::int64_t recalled = 0;
  Demand* demand = nullptr;  // what it wants; the row stays while there is one
};

// How far the wish is to end what runs in a slot.
enum class Ending : std::uint8_t {
  unasked,
  asked,    // its lessee, whether it may be
  allowed,  // it may
  told,     // it is to be
  refused,  // the lessee has said that it may not
};

struct HeldSlot {
  Slot slot;
  std::uint64_t sequence = 0;  // order in which slots were booked
  Time granted_at;            // long ago for a restored one
  bool recalled = false;
  Ending ending = Ending::unasked;
  Time recalled_at;  // or asked for again
  bool resident = false;   // its executor runs nothing and holds results, which it can store
  bool passed = false;     // it got what was withheld from it, and has not started: not to be recalled yet
  Holder* holder = nullptr;
  Node* node = nullptr;  // which stays as long as it has slots
};

// What is left of a job's quota, withheld from its other classes.
struct WithheldQuota {
  ClassKey owner;
  Time waiting_since;   // the owner
  ResourceSet wanted;   // by it, at most
  Withholding withheld;
};

class SlotBooks {
 public:
  struct Job {
    JobTerms terms;
    std::uint64_t sequence = 0;
    AmountSums held;                                // what its slots hold, lent CPU left out
    AmountSums returning;                           // the part of it that was recalled
    OrderedRuns<std::uint64_t, SlotId> task_slots;  // by sequence
    std::int64_t slots = 0;                      // those of actors included
    bool ended = false;                          // forgotten when its last slot is back
    bool share_changed = false;                  // since it was last told
    std::int64_t share = 0;                      // as it was with these totals of the cluster
    std::uint64_t share_version = 0;
    bool quota_freed = false;                    // something it may want for others is back
    std::int64_t lent_slots = 0;                 // whose tasks wait for something
    std::optional<WithheldQuota> withheld;
  };
  explicit SlotBooks(ClusterView& cluster) : cluster_(cluster) {}

  // A slot whose allocation the node's ledger has booked already.
  // `known`: the holder's row, if the caller has it. Returns it.
  Holder& granted(const Slot& slot, Time now, Holder* known) { return add(slot, now, known); }
  // A slot that its agent states, or a bundle: booked whatever is free. False if the slot is known
  // already, or its node or its bundle is not.
  bool restore(const Slot& slot);
  // False if there is no such slot. So below; repeating changes nothing.
  bool release(SlotId id);
  bool lend(SlotId id);
  bool resume(SlotId id);
  bool mark_recalled(SlotId id, Time now);
  // It is recalled, and its lessee is asked whether what runs in it may be ended, or told to end it.
  bool mark_ending(SlotId id, Ending ending, Time now);
  // What it said to that: allowed or refused. False if it was asked for nothing.
  bool mark_answer(SlotId id, Ending answer);
  bool mark_passed(SlotId id, bool passed);
  bool mark_resident(SlotId id, bool resident);
  // Books the node's slots again after its ledger was made afresh.
  void rebook(Node& node);

  void set_terms(JobId job, const JobTerms& terms);
  // Those of a job that was told nothing are the defaults.
  const JobTerms& terms(JobId job) const;
  // While slots may be out that have not been restored yet, a quota lets nothing more be taken.
  void set_all_known(bool known);
  // Why the job may not hold `amounts` beside what it has, or `alone`, ever. What a blocked slot lends
  // does not count meanwhile. Device memory alone counts as a device, until it is known how much of
  // one it is.
  std::optional<Reason> over_quota(JobId job, const ResourceSet& amounts, bool alone = false) const;
  // How many slots that hold so much each the job's quota leaves room for.
  std::int64_t slots_within_quota(JobId id, const ResourceSet& each) const;
  Job& job_row(JobId id);
  // What is withheld of its quota has opened: all that waits for it is looked at anew.
  void quota_opened(JobId id) { share_changed(id, job_row(id), true); }
  // Those whose share has changed since the last call, other than by the cluster's totals.
  std::vector<JobId> take_changed_jobs();
  // Whether something of the job's quota was freed since the last call.
  bool take_quota_freed(JobId job);
  void end_job(JobId job);
  // Millionths of the scarcest resource that the job holds, by its weight.
  std::int64_t share(JobId id);
  // The same, counted anew.
  std::int64_t present_share(JobId id) const;
  // The same without what was recalled, and with `extra` added.
  std::int64_t lasting_share(JobId id, const ResourceSet& extra = {}) const;
  // The same with `taken`, and what one slot of it holds, gone.
  std::int64_t share_without(JobId id, const ResourceSet& taken, const Allocation& allocation) const;

  const HeldSlot* find(SlotId id) const { return slots_.find(id); }
  const Table<JobId, Job>& jobs() const { return jobs_; }
  // Zeros for one that holds nothing.
  Holder holder(const HolderKey& key) const;
  // Its row, which then stays until `unlink`; null for one that holds nothing.
  Holder* link(const HolderKey& key, Demand& demand);
  void unlink(const HolderKey& key);
  std::vector<SlotId> slots_on(NodeId node) const;
  std::vector<SlotId> slots_of(ProcessId lessee) const;
  std::vector<SlotId> slots_of(JobId job) const;
  // Those in bundles of the group.
  std::set<SlotId> slots_in(GroupId group) const;

  // Recounts everything from the slots. Empty, or the first difference.
  std::string verify() const;

 private:
  Holder& add(const Slot& slot, Time now, Holder* known);
  void share_changed(JobId id, Job& job, bool freed);
  std::int64_t share_of(const Job& job, const ResourceSet& extra, bool lasting) const;

  ClusterView& cluster_;
  Table<SlotId, HeldSlot> slots_;  // in the order of booking
  Table<JobId, Job> jobs_;
  Table<HolderKey, Holder> holders_;
  std::map<GroupId, std::set<SlotId>> in_group_;
  bool all_known_ = true;
  std::vector<JobId> changed_jobs_;
  std::uint64_t sequence_ = 0;
};

}  // namespace mobula::internal::scheduler
