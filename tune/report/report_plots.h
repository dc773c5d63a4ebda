// The plots of a report, each as SVG text. A plot without content is empty.
// Thread: any; pure.
#pragma once

#include <string>

#include "tune/report/report_model.h"

namespace mobula::internal::tune {

// The value of each trial and the best value so far.
std::string history_plot(const ReportModel& model);
// The values of trials over their iterations.
std::string curves_plot(const ReportModel& model);
// One line per trial through its parameters and its value.
std::string parallel_plot(const ReportModel& model);
// The value over each parameter.
std::string slice_plots(const ReportModel& model);
std::string importance_plot(const ReportModel& model);
// The number of trials that reached an iteration.
std::string survivors_plot(const ReportModel& model);
// Attempts by node.
std::string timeline_plot(const ReportModel& model);

}  // namespace mobula::internal::tune
