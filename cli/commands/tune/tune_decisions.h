// Sentences and table rows of the decisions that a scheduler made about a trial.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tune/store/stored_rows.h"

namespace mobula::internal::cli {

// "stopped at rung 9 of bracket 0: loss 0.5 is worse than the cutoff 0.3 of 12 values".
std::string decision_text(const tune::StoredDecision& decision, const std::string& metric);
nlohmann::ordered_json decision_items(const std::vector<tune::StoredDecision>& decisions,
                                      const std::string& metric);

}  // namespace mobula::internal::cli
