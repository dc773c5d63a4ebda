// The books of one node, instance by instance: amounts, bytes of device memory, places for
// executors. Decides which devices a request gets, by these rules:
//   - a resource without instances is one entry: take the amount if it is free;
//   - less than one device: best fit, ordered by remaining fraction, remaining bytes, index;
//     never split over devices;
//   - bytes asked for are what its process may allocate: on each device its context is booked beside
//     them, where the device says how large one is. A share without bytes includes its context;
//   - whole devices: those wholly free, lowest index first; several for a bundle from the one island
//     that they fit into and that has the fewest free, where there is one;
//   - an accelerator type restricts the devices, or without devices the node; it limits nothing.
// A request is booked over all its resources or not at all. Only CPU and executor places may become
// negative, when a lender resumes, and nothing starts while CPU is; `restore` may overdraw
// anything. Not thread-safe: owned by one core. Knows nothing of nodes' states, labels or
// strategies.
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

#include "model/node_shape.h"
#include "model/reason.h"
#include "scheduler/instance_layout.h"
#include "scheduler/need.h"

namespace mobula::internal::scheduler {

// What a slot takes besides its allocation.
struct Occupancy {
  Tenant tenant = Tenant::task;
  bool lent = false;  // its CPU and place are lent to others while it is blocked
};

class InstanceLedger {
 public:
  // At most `max_task_slots` tasks hold slots here, blocked ones included.
  InstanceLedger(const NodeShape& shape, std::int32_t max_task_slots);
  InstanceLedger(SharedLayout layout, std::int32_t max_task_slots);
  // The books of a bundle: of a node like this, only what `share` holds, under the same indices.
  // Places are the node's affair.
  InstanceLedger(const InstanceLayout& node, const Allocation& share);

  // The first rule that refuses `need`: first those that no passing of time changes, then those
  // that wait for something to be freed. `fits` if none does.
  Reason why_not(const Need& need) const;
  bool can_ever(const Need& need) const { return !never(need).has_value(); }
  bool fits(const Need& need) const;
  bool has_place(Tenant tenant) const { return places(tenant).open(); }

  // Books `need`; nothing changes if it does not fit.
  std::optional<Allocation> book(const Need& need);
  // The same for what is known to fit.
  Allocation take(const Need& need);
  // Books what is held already, as its holder states it, even where that is more than is free.
  // Instances that the node does not have are passed over, here and in `free`.
  void restore(const Allocation& allocation, Occupancy occupancy);
  void free(const Allocation& allocation, Occupancy occupancy);
  // Whether all of it is free.
  bool has_free(const Allocation& allocation) const;
  // A blocked slot gives its CPU and its place to others, and takes them back whatever is free.
  void lend(const Allocation& allocation, Tenant tenant);
  void resume(const Allocation& allocation, Tenant tenant);

  // Sums over the instances of a resource; free may be negative for CPU.
  Quantity total(std::string_view name) const;
  Quantity available(std::string_view name) const;
  // The largest amount that one request could get: of devices, those wholly free, or the most that
  // is left of one.
  Quantity largest_share(std::string_view name) const;
  Quantity largest_share(const InstanceLayout::Resource& of) const;
  Quantity used(const InstanceLayout::Resource& of) const { return of.total - free_of(of); }
  // What there is, booked or not.
  const SharedLayout& layout() const { return has_; }
  // Names in order, accelerator types excluded.
  std::vector<std::string> names() const;
  // Every type of the node or of one of its devices, with what running slots show as used of it.
  std::map<std::string, Quantity> types_in_use() const;
  bool has_devices() const { return has_->has_devices; }
  // Whether a resource is counted here in numbered instances.
  bool in_instances(std::string_view name) const {
    const auto* of = find(name);
    return of != nullptr && of->units;
  }

  friend bool operator==(const InstanceLedger& a, const InstanceLedger& b) {
    return *a.has_ == *b.has_ && a.left_ == b.left_ && a.types_used_ == b.types_used_ &&
           a.places_ == b.places_;
  }

 private:
  using Resource = InstanceLayout::Resource;
  using Instance = InstanceLayout::Instance;
  // Of an instance, or of all of a resource.
  struct Left {
    Quantity amount;
    std::int64_t memory = 0;
    friend bool operator==(const Left&, const Left&) = default;
  };
  // Bound, running (not blocked) and all holders of executor places.
  struct Places {
    std::int32_t bound = 0, running = 0, holders = 0, max_holders = 0;
    bool open() const { return running < bound && holders < max_holders; }
    friend bool operator==(const Places&, const Places&) = default;
  };
  static constexpr Places no_bound{std::numeric_limits<std::int32_t>::max(), 0, 0,
                                   std::numeric_limits<std::int32_t>::max()};
  struct Take {
    Quantity amount;
    std::int64_t bytes = 0;
  };
  // What may keep an instance from counting.
  struct Rules {
    bool types = true, bytes = true, busy = true;
  };

  static constexpr Quantity one_device = Quantity::whole(1);
  // So many that no node has them for a fraction above one, which no device can serve.
  static std::int64_t devices_wanted(const Need::Amount& want);
  // What is booked on such a device for the bytes that `want` may allocate.
  static std::int64_t booked_bytes(const Instance& has, const Need::Amount& want) {
    return want.bytes > 0 ? want.bytes + has.context : 0;
  }
  static std::optional<Take> take_of(const Instance& has, const Need::Amount& want, bool bytes);
  bool serves(const Resource& of, std::size_t instance, const Need& need, const Need::Amount& want,
              Rules rules) const;
  // How many of its instances serve, at most `limit`.
  std::int64_t count(const Resource& of, const Need& need, const Need::Amount& want, Rules rules,
                     std::int64_t limit = std::numeric_limits<std::int64_t>::max()) const;
  // The island to take so many whole devices from; nothing: any.
  std::optional<std::int32_t> island_for(const Resource& from, const Need& need,
                                         const Need::Amount& want) const;
  void take_devices(const Resource& from, const Need& need, const Need::Amount& want,
                    ResourceShare& share);

  std::optional<Reason> never(const Need& need) const;
  std::optional<Reason> never_device(const Need& need, const Need::Amount& want) const;
  std::optional<Reason> busy(const Need& need) const;
  Reason busy_device(const Resource& of, const Need& need, const Need::Amount& want) const;
  // "free 1.5 on 2 devices: 1, 0.5": what is left of those that could serve, were they free.
  std::string parts_left(const Resource& of, const Need& need, const Need::Amount& want) const;

  const Resource* find(std::string_view name) const;
  Quantity free_of(const Resource& of) const { return left_[of.amount_at].amount; }
  const Left& left(const Resource& of, std::size_t instance) const {
    return left_[of.amount_at + 1 + instance];
  }
  // Adds to what is left of an instance, or takes from it where they are negative.
  void add(const Resource& to, std::size_t instance, Quantity amount, std::int64_t memory);
  Quantity* used_of_type(std::string_view type);
  void move(std::span<const ResourceShare> shares, int sign, bool with_cpu);
  Places& places(Tenant tenant) { return places_[static_cast<std::size_t>(tenant)]; }
  const Places& places(Tenant tenant) const { return places_[static_cast<std::size_t>(tenant)]; }
  void clear();

  SharedLayout has_;
  std::vector<Left> left_;            // per resource all of it, and then each instance
  std::vector<Quantity> types_used_;  // by type
  std::array<Places, 3> places_;      // by tenant
};

}  // namespace mobula::internal::scheduler
