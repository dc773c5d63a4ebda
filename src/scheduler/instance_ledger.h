// The books of one node, instance by instance: amounts, bytes of device memory, places for
// executors. Decides which devices a request gets, by these rules:
//   - a resource without instances is one entry: take the amount if it is free;
//   - less than one device: best fit, ordered by remaining fraction, remaining bytes, index;
//     never split over devices;
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
  // The books of a bundle: of a node of this shape, only what `share` holds, under the same indices.
  // Places are the node's affair.
  InstanceLedger(const NodeShape& shape, const Allocation& share);

  // The first rule that refuses `need`: first those that no passing of time changes, then those
  // that wait for something to be freed. `fits` if none does.
  Reason why_not(const Need& need) const;
  bool can_ever(const Need& need) const { return !never(need).has_value(); }
  bool fits(const Need& need) const;
  bool has_place(Tenant tenant) const { return places(tenant).open(); }

  // Books `need`; nothing changes if it does not fit.
  std::optional<Allocation> book(const Need& need);
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
  // Calls visit(name, largest share) for each resource, in the order of names.
  template <class Visit>
  void for_each_share(Visit&& visit) const {
    for (const auto& each : resources_) visit(each.name, largest_share(each));
  }
  // Names in order, accelerator types excluded.
  std::vector<std::string> names() const;
  // Every type of the node or of one of its devices, with what running slots show as used of it.
  const std::map<std::string, Quantity>& types_in_use() const { return types_in_use_; }
  bool has_devices() const { return has_devices_; }
  // Whether a resource is counted here in numbered instances.
  bool in_instances(std::string_view name) const {
    const auto* of = find(name);
    return of != nullptr && of->units;
  }

  friend bool operator==(const InstanceLedger&, const InstanceLedger&) = default;

 private:
  struct Entry {
    std::uint32_t index = 0;
    Quantity total, free;
    std::int64_t memory = 0, memory_free = 0;
    std::vector<std::string> types;
    std::int32_t island = -1;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Resource {
    std::string name;
    Quantity total, free;
    std::vector<Entry> entries;
    bool units = false;  // an entry for each unit, accelerators or not
    friend bool operator==(const Resource&, const Resource&) = default;
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
  static std::optional<Take> take_of(const Entry& entry, const Need::Amount& want, bool bytes);
  static bool serves(const Entry& entry, const Need& need, const Need::Amount& want, Rules rules);
  static std::int64_t count(const Resource& of, const Need& need, const Need::Amount& want,
                            Rules rules);
  // The island to take so many whole devices from; nothing: any.
  static std::optional<std::int32_t> island_for(const Resource& from, const Need& need,
                                                const Need::Amount& want);
  static void take_devices(Resource& from, const Need& need, const Need::Amount& want,
                           ResourceShare& share);

  std::optional<Reason> never(const Need& need) const;
  std::optional<Reason> never_device(const Need& need, const Need::Amount& want) const;
  std::optional<Reason> busy(const Need& need) const;
  Reason busy_device(const Resource& of, const Need& need, const Need::Amount& want) const;

  static Quantity largest_share(const Resource& of);
  Resource* find(std::string_view name);
  const Resource* find(std::string_view name) const;
  void move(std::span<const ResourceShare> shares, int sign, bool with_cpu);
  Places& places(Tenant tenant) { return places_[static_cast<std::size_t>(tenant)]; }
  const Places& places(Tenant tenant) const { return places_[static_cast<std::size_t>(tenant)]; }
  void add_resource(const ResourceShape& shape);

  std::vector<Resource> resources_;  // ordered by name
  std::map<std::string, Quantity> types_in_use_;
  std::array<Places, 3> places_;  // by tenant
  bool has_devices_ = false;
};

}  // namespace mobula::internal::scheduler
