// Importance of parameters by PED-ANOVA (Watanabe, Bansal, Hutter, IJCAI 2023): how far the
// distribution of a parameter among the best tenth of the trials differs from that of all trials.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "tune/report/report_model.h"

namespace mobula::internal::tune {

// `trials` are ordered by value, best first. The result is ordered by share; equal shares keep the
// order of `parameters`. Empty below 20 trials.
std::vector<ReportImportance> importances_of(const std::vector<ReportTrial>& trials,
                                             const std::vector<std::string>& parameters);

}  // namespace mobula::internal::tune
