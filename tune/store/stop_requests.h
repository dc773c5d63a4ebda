// Requests of `mobula tune stop` to the controller of an experiment: files in the directory
// STORAGE/NAME/stop, one for each request.
// Thread: any. Errors: request_stop names the directory.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "tune/core/trial_table.h"
#include "tune/store/experiment_location.h"

namespace mobula::internal::tune {

// Requests the end of one trial, or of the whole experiment.
Result<void> request_stop(const ExperimentLocation& location, std::optional<TrialNumber> trial);

// Returns and removes the requests; absent: the whole experiment. For the process that holds the
// lock of the experiment.
std::vector<std::optional<TrialNumber>> take_stop_requests(const ExperimentLocation& location);

}  // namespace mobula::internal::tune
