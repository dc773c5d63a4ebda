// A request in the form of the ledgers: amounts by resource, numbered devices among them, and
// required accelerator types. Computed once per request.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/model/node_shape.h"
#include "base/model/request.h"

namespace mobula::internal::scheduler {

// Executors of tasks and actors have separate limits on a node; bundles of placement groups need no
// executor.
enum class Tenant : std::uint8_t { task, actor, bundle };

struct Need {
  struct Amount {
    std::string name;
    Quantity amount;         // 0 for a device: the fraction that `bytes` are of its memory
    bool device = false;     // an accelerator, which types restrict
    std::int64_t bytes = 0;  // device memory of each instance; 0: the share of `amount`
  };

  Need() = default;
  Need(const Request& request, Tenant tenant);

  std::vector<Amount> amounts;  // ordered by name
  ResourceSet required_totals;
  std::vector<std::string> types;  // accelerator types; all are required
  Tenant tenant = Tenant::task;
  bool has_devices = false;
};

// "CPU 1, GPU 0.5", in its order.
std::string to_string(const Need& need);
// Sums by resource without accelerator types, which never limit.
ResourceSet amounts_of(const Need& need);
// The most that an allocation for it can hold: a request of device memory counts as at most one
// device.
ResourceSet most_held_by(const Need& need);
ResourceSet amounts_of(const Allocation& allocation);

// Adds with saturation at the largest Quantity.
void add_at_most(ResourceSet& sums, const ResourceSet& more);

// part / whole in millionths, rounded down; 0 for an empty whole.
std::int64_t millionths(Quantity part, Quantity whole);

}  // namespace mobula::internal::scheduler
