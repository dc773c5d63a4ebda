// The report of an experiment as one HTML page below 150 KB, without external resources. It opens
// from a file, also without scripts.
// Thread: any; pure.
#pragma once

#include <string>

#include "tune/report/report_model.h"

namespace mobula::internal::tune {

std::string report_page(const ReportModel& model);

}  // namespace mobula::internal::tune
