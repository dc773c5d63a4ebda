// How well the scheduler packs small cases, beside the best packing there is and beside Ray's rule. Two
// kinds of cases: requests made one after another on a few nodes, measured by the devices that are in
// use at the end; and one placement group on nodes that are partly in use, measured by whether it
// finds places. The best is found by trying everything; Ray's rule is written down here once more, on
// books of its own. Integers and one seed: the same figures everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/group.h"

namespace mobula::internal::packing {

// Tenths of devices and of CPUs.
struct Ask {
  int cpus = 0;
  int gpus = 0;
};

struct Machine {
  int cpus = 0;
  std::vector<int> devices;  // tenths that are free of each
};

struct Case {
  std::vector<Machine> machines;
  std::vector<Ask> asks;  // requests in their order, or the bundles of a group
  GroupStrategy strategy = GroupStrategy::pack;
};

Case draw_requests(std::uint64_t seed);
Case draw_group(std::uint64_t seed);

// Tenths of devices in use at the end.
int in_use_by_scheduler(const Case& drawn);
int in_use_by_ray(const Case& drawn);
int most_in_use(const Case& drawn);

// Whether all bundles find places.
bool placed_by_scheduler(const Case& drawn);
bool placed_by_ray(const Case& drawn);
bool can_be_placed(const Case& drawn);

// Over so many cases of each kind.
struct Quality {
  int cases = 0;
  int best = 0, best_of_ray = 0;        // cases in which the optimum is reached
  int worse_than_ray = 0, better_than_ray = 0;
  std::int64_t used = 0, used_by_ray = 0, most = 0;  // tenths of devices; groups: that are placed
  std::vector<std::uint64_t> worse;     // seeds of those that are worse
};
Quality measure_requests(int cases);
Quality measure_groups(int cases);
std::string describe(const Quality& quality, const std::string& of);

}  // namespace mobula::internal::packing
