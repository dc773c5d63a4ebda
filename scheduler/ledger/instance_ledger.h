// The ledger of one node by instance: amounts, bytes of device memory, executor slots. Decides
// which devices a request gets. A request is allocated over all its resources or not at all.
// Thread: owner (one core).
// Not: node states, labels, strategies.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/model/node_shape.h"
#include "base/model/reason.h"
#include "scheduler/ledger/instance_layout.h"
#include "scheduler/queues/need.h"

namespace mobula::internal::scheduler {

// Rules:
//   - A resource without instances is one entry: allocate the amount if it is free.
//   - Less than one device: best fit, ordered by remaining fraction, remaining bytes, index. Never
//     split over devices.
//   - Requested bytes are those that the process may allocate. If the device declares the size of a
//     context, it is accounted in addition. A share without bytes includes its context.
//   - Whole devices: free ones, the lowest index first. Several devices for a bundle are from the
//     island that holds them all and has the fewest free, if one exists.
//   - An accelerator type restricts the devices or, without devices, the node; it never limits.
//
// Only CPU and executor slots may become negative, when a blocked slot continues. Nothing starts
// while CPU is negative. `restore` may overdraw any amount.

// Use of a slot apart from its allocation.
struct Occupancy {
  Tenant tenant = Tenant::task;
  bool lent = false;  // its CPU and executor slot are released while it is blocked
};

class InstanceLedger {
 public:
  // At most `max_task_slots` task slots, including blocked ones.
  InstanceLedger(const NodeShape& shape, std::int32_t max_task_slots);
  InstanceLedger(SharedLayout layout, std::int32_t max_task_slots);
  // The ledger of a bundle: the part of the node that `share` holds, under the same indices. The
  // node accounts the executor slots.
  InstanceLedger(const InstanceLayout& node, const Allocation& share);

  // The first rule that rejects `need`: first permanent rules, then rules that wait for freed
  // capacity. `fits` if no rule does.
  Reason why_not(const Need& need) const;
  bool can_ever(const Need& need) const { return !never(need).has_value(); }
  bool fits(const Need& need) const;
  bool has_free_executor(Tenant tenant) const { return executors(tenant).open(); }

  // Allocates `need`; nothing changes if it does not fit.
  std::optional<Allocation> book(const Need& need);
  // Allocates a need that is known to fit.
  Allocation take(const Need& need);
  // Allocates resources that a holder already has, even beyond the free amount. Instances that the
  // node lacks are skipped, here and in `free`.
  void restore(const Allocation& allocation, Occupancy occupancy);
  void free(const Allocation& allocation, Occupancy occupancy);
  // Returns true if the whole allocation is free.
  bool has_free(const Allocation& allocation) const;
  // Releases the CPU and executor of a blocked slot, and reacquires them, whatever is free.
  void release_cpu(const Allocation& allocation, Tenant tenant);
  void reacquire_cpu(const Allocation& allocation, Tenant tenant);

  // Sums over the instances of a resource; the free CPU may be negative.
  Quantity total(std::string_view name) const;
  Quantity available(std::string_view name) const;
  // The largest amount that one request could get: the count of free devices, or the largest
  // remainder of one.
  Quantity largest_share(std::string_view name) const;
  Quantity largest_share(const InstanceLayout::Resource& of) const;
  Quantity used(const InstanceLayout::Resource& of) const { return of.total - free_of(of); }
  // All resources, allocated or not.
  const SharedLayout& layout() const { return has_; }
  // Names in order, without accelerator types.
  std::vector<std::string> names() const;
  // Every type of the node or of one of its devices, with the displayed use by running slots.
  std::map<std::string, Quantity> types_in_use() const;
  bool has_devices() const { return has_->has_devices; }
  // Returns true if this node counts the resource in numbered instances.
  bool in_instances(std::string_view name) const {
    const auto* of = find(name);
    return of != nullptr && of->units;
  }

  friend bool operator==(const InstanceLedger& a, const InstanceLedger& b) {
    return *a.has_ == *b.has_ && a.left_ == b.left_ && a.types_used_ == b.types_used_ &&
           a.executors_ == b.executors_;
  }

 private:
  using Resource = InstanceLayout::Resource;
  using Instance = InstanceLayout::Instance;
  // Remainder of an instance, or of a whole resource.
  struct Left {
    Quantity amount;
    std::int64_t memory = 0;
    friend bool operator==(const Left&, const Left&) = default;
  };
  // Limit, number of running (not blocked) slots, and number of all holders of executor slots.
  struct ExecutorCounts {
    std::int32_t bound = 0, running = 0, holders = 0, max_holders = 0;
    bool open() const { return running < bound && holders < max_holders; }
    friend bool operator==(const ExecutorCounts&, const ExecutorCounts&) = default;
  };
  static constexpr ExecutorCounts no_bound{std::numeric_limits<std::int32_t>::max(), 0, 0,
                                           std::numeric_limits<std::int32_t>::max()};
  struct Take {
    Quantity amount;
    std::int64_t bytes = 0;
  };
  // Checks that `serves` applies to an instance.
  struct Rules {
    bool types = true, bytes = true, busy = true;
  };

  static constexpr Quantity one_device = Quantity::whole(1);
  // Number of devices. A fraction above one, which no device can serve, gives a number that no node
  // has.
  static std::int64_t devices_wanted(const Need::Amount& want);
  // Bytes accounted on such a device for the bytes that `want` may allocate.
  static std::int64_t booked_bytes(const Instance& has, const Need::Amount& want) {
    return want.bytes > 0 ? want.bytes + has.context : 0;
  }
  static std::optional<Take> take_of(const Instance& has, const Need::Amount& want, bool bytes);
  bool serves(const Resource& of, std::size_t instance, const Need& need, const Need::Amount& want,
              Rules rules) const;
  // Number of its instances that serve, at most `limit`.
  std::int64_t count(const Resource& of, const Need& need, const Need::Amount& want, Rules rules,
                     std::int64_t limit = std::numeric_limits<std::int64_t>::max()) const;
  // The island to take the whole devices from; empty: any.
  std::optional<std::int32_t> island_for(const Resource& from, const Need& need,
                                         const Need::Amount& want) const;
  void take_devices(const Resource& from, const Need& need, const Need::Amount& want,
                    ResourceShare& share);

  std::optional<Reason> never(const Need& need) const;
  std::optional<Reason> never_device(const Need& need, const Need::Amount& want) const;
  std::optional<Reason> busy(const Need& need) const;
  Reason busy_device(const Resource& of, const Need& need, const Need::Amount& want) const;
  // "free 1.5 on 2 devices: 1, 0.5": remainders of devices that could serve if they were free.
  std::string parts_left(const Resource& of, const Need& need, const Need::Amount& want) const;

  const Resource* find(std::string_view name) const;
  Quantity free_of(const Resource& of) const { return left_[of.amount_at].amount; }
  const Left& left(const Resource& of, std::size_t instance) const {
    return left_[of.amount_at + 1 + instance];
  }
  // Adds to the remainder of an instance; negative amounts subtract.
  void add(const Resource& to, std::size_t instance, Quantity amount, std::int64_t memory);
  Quantity* used_of_type(std::string_view type);
  void move(std::span<const ResourceShare> shares, int sign, bool with_cpu);
  ExecutorCounts& executors(Tenant tenant) { return executors_[static_cast<std::size_t>(tenant)]; }
  const ExecutorCounts& executors(Tenant tenant) const {
    return executors_[static_cast<std::size_t>(tenant)];
  }
  void clear();

  SharedLayout has_;
  std::vector<Left> left_;                   // for each resource its total, then each instance
  std::vector<Quantity> types_used_;         // by type
  std::array<ExecutorCounts, 3> executors_;  // by tenant
};

}  // namespace mobula::internal::scheduler
