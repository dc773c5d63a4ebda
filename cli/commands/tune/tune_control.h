// The commands of `mobula tune` that act on a controller or its program: stop, resume, and replay.
// Thread: main. Each returns the exit code.
#pragma once

#include "cli/command_line.h"
#include "tune/store/experiment_location.h"

namespace mobula::internal::cli {

// Requests the end of the experiment, or of one trial.
int stop_experiment(const tune::ExperimentLocation& location, const TuneFlags& flags);
// Becomes the recorded program, with MOBULA_TUNE_RESUME and MOBULA_TUNE_STORAGE in its environment.
int resume_experiment(const tune::ExperimentLocation& location);
// Runs the recorded program for a replay of the log, and prints the decisions that differ.
int replay_experiment(const tune::ExperimentLocation& location, const CommandLine& line);

}  // namespace mobula::internal::cli
