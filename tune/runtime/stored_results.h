// The results of an experiment in its file.
// Thread: owner. Errors: a damaged file.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mobula/tune/run.h>

#include "base/result.h"
#include "tune/store/experiment_location.h"

namespace mobula::internal::tune {

// Reads `trials` trials at once if they are few; otherwise the source keeps the file open.
Result<std::shared_ptr<const mobula::tune::detail::ResultSource>> stored_results(
    const ExperimentLocation& location, std::size_t trials);

std::shared_ptr<const mobula::tune::detail::ResultSource> results_in_memory(
    std::vector<mobula::tune::TrialResult> results);

}  // namespace mobula::internal::tune
