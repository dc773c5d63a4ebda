// A request in the form the books read it: what it takes of which resource, which of those are
// numbered devices, which accelerator types it insists on. Computed once per request. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/node_shape.h"
#include "model/request.h"

namespace mobula::internal::scheduler {

// Tasks and actors take their executors from different bounds of a node; bundles of placement groups
// need none.
enum class Tenant : std::uint8_t { task, actor, bundle };

struct Need {
  struct Amount {
    std::string name;
    Quantity amount;         // 0 of a device: as much of it as `bytes` are of its memory
    bool device = false;     // an accelerator, which types restrict
    std::int64_t bytes = 0;  // device memory asked of each instance; 0: the share of `amount`
  };

  Need() = default;
  Need(const Request& request, Tenant tenant);

  std::vector<Amount> amounts;     // ordered by name
  ResourceSet required_totals;
  std::vector<std::string> types;  // accelerator types; all must be met
  Tenant tenant = Tenant::task;
  bool has_devices = false;
};

// "CPU 1, GPU 0.5", in its order.
std::string to_string(const Need& need);
// Sums by resource; accelerator types, which limit nothing, are left out.
ResourceSet amounts_of(const Need& need);
// The most that an allocation for it can hold: device memory alone is at most one device.
ResourceSet most_held_by(const Need& need);
ResourceSet amounts_of(const Allocation& allocation);

// Adds what a quantity can count; what is more stays at the most that it can.
void add_at_most(ResourceSet& sums, const ResourceSet& more);

// part / whole in millionths, rounded down; 0 for an empty whole.
std::int64_t millionths(Quantity part, Quantity whole);

}  // namespace mobula::internal::scheduler
