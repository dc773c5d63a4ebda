// The allocation functions of Ray for ResourceChangingScheduler: free CPUs and GPUs evenly to all
// trials (DistributeResources), or to the best one (DistributeResourcesToTopJob).
// Thread: any (functions of their arguments). Units: 1/10000. Errors: several base bundles without
// add_bundles; an increase without CPU and GPU.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/core/schedulers/resource_changing.h"

namespace mobula::internal::tune {

struct ProcessorAmounts {
  std::int64_t cpu = 0, gpu = 0;

  bool empty() const { return cpu == 0 && gpu == 0; }
  friend bool operator==(const ProcessorAmounts&, const ProcessorAmounts&) = default;
};
using ProcessorBundles = std::vector<ProcessorAmounts>;

struct DistributionSettings {
  bool add_bundles = false;           // new bundles; otherwise the one bundle grows
  ProcessorAmounts increase_by = {};  // empty: 1 GPU if the base has one, otherwise 1 CPU
  int increase_by_times = -1;         // at least 1: the largest increase
  ProcessorAmounts reserve = {};
  bool to_top_job = false;
  Mode mode = Mode::min;  // direction of the values that choose the top job
};

// The live trials at a report.
struct DistributionInput {
  ProcessorAmounts total = {};  // amounts of the cluster
  ProcessorBundles base = {};   // at the start of each trial
  std::vector<ProcessorBundles> trials = {};
  std::vector<std::optional<double>> values = {};  // last metrics
  std::size_t reporter = 0;                        // index in trials
};
// The bundles of the trial that reported.
Result<ProcessorBundles> distribute(const DistributionSettings& settings,
                                    const DistributionInput& input);

// The allocation function with these rules. `total` returns the amounts of the cluster. Other
// resources of a bundle do not change.
AllocationFunction make_distribution(const DistributionSettings& settings,
                                     std::function<ProcessorAmounts()> total);

}  // namespace mobula::internal::tune
