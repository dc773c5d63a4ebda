// The commands of `mobula tune` that write files: plot, export, and import.
// Thread: main. Each returns the exit code.
#pragma once

#include "cli/command_line.h"
#include "tune/store/experiment_location.h"

namespace mobula::internal::cli {

int write_plots(const tune::ExperimentLocation& location, const TuneFlags& flags);
int export_experiment(const tune::ExperimentLocation& location, const TuneFlags& flags);
int import_study(const tune::ExperimentLocation& location, const CommandLine& line);

}  // namespace mobula::internal::cli
