// Changes the placement groups of trials while they run, around another scheduler.
// Thread: owner. Errors: trials that start with different resources.
#pragma once

#include <functional>

#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

// The new bundles of the trial that reported, or nothing to keep the present ones. `base` are the
// bundles with which all trials start.
using AllocationFunction = std::function<Result<std::optional<ResourceBundles>>(
    const Report& report, const TrialTable& trials, const ResourceBundles& base)>;

TrialSchedulerPtr make_resource_changing(TrialSchedulerPtr base, AllocationFunction allocation);

}  // namespace mobula::internal::tune
