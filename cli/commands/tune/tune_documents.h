// Documents of `mobula tune` (apiVersion mobula/v1), made from the file of an experiment.
// Thread: main. Errors: the errors of ExperimentReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::cli {

// All experiments of the storage directory. A file that cannot be read is an item with the state
// "unreadable" and the reason.
nlohmann::ordered_json experiments_document(const std::string& storage);
// Counts, the best trial, and at most `rows` trials: the live ones first, then the latest.
Result<nlohmann::ordered_json> experiment_document(const tune::ExperimentLocation& location,
                                                   std::size_t rows);
Result<nlohmann::ordered_json> trials_document(const tune::ExperimentLocation& location,
                                               const tune::TrialFilter& filter);
Result<nlohmann::ordered_json> best_document(const tune::ExperimentLocation& location,
                                             std::size_t count);
Result<nlohmann::ordered_json> trial_document(const tune::ExperimentLocation& location,
                                              tune::TrialNumber trial);
// The reason that a trial ended or waits, and its rank among the trials at its last step.
Result<nlohmann::ordered_json> explanation_document(const tune::ExperimentLocation& location,
                                                    tune::TrialNumber trial);

// Replaces fractional numbers by texts with at most six digits, because tables round to four
// decimal places.
void shorten_numbers(nlohmann::ordered_json& value);

}  // namespace mobula::internal::cli
