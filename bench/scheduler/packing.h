// Compares the scheduler's packing of small cases with the optimum and with Ray's rule. In the
// first kind of case, requests arrive one after another on a few nodes, and the result is the
// number of devices in use. In the second kind, one placement group arrives on partly used nodes,
// and the result is whether it is placed. The optimum comes from exhaustive search. Ray's rule is
// reimplemented here with its own accounting.
// Thread: any. Deterministic: integers and one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/model/group.h"

namespace mobula::internal::packing {

// Tenths of devices and of CPUs.
struct Shape {
  int cpus = 0;
  int gpus = 0;
};

struct Machine {
  int cpus = 0;
  std::vector<int> devices;  // free tenths of each device
};

struct Case {
  std::vector<Machine> machines;
  std::vector<Shape> shapes;  // requests in order, or the bundles of a group
  GroupStrategy strategy = GroupStrategy::pack;
};

Case draw_requests(std::uint64_t seed);
Case draw_group(std::uint64_t seed);

// Tenths of devices in use at the end.
int in_use_by_scheduler(const Case& drawn);
int in_use_by_ray(const Case& drawn);
int most_in_use(const Case& drawn);

// True if all bundles are placed.
bool placed_by_scheduler(const Case& drawn);
bool placed_by_ray(const Case& drawn);
bool can_be_placed(const Case& drawn);

// Totals over this many cases of each kind.
struct Quality {
  int cases = 0;
  int best = 0, best_of_ray = 0;  // cases that reach the optimum
  int worse_than_ray = 0, better_than_ray = 0;
  std::int64_t used = 0, used_by_ray = 0, most = 0;  // tenths of devices, or placed groups
  std::vector<std::uint64_t> worse;                  // seeds of the worse cases
};
Quality measure_requests(int cases);
Quality measure_groups(int cases);
std::string describe(const Quality& quality, const std::string& of);

}  // namespace mobula::internal::packing
