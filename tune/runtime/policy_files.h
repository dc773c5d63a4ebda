// The policy files of population based training, in the format that PopulationBasedTrainingReplay
// reads: a file per trial has the chain of exploits that led to its configuration.
// Thread: owner. Errors: a file that cannot be written is a warning on the standard error output.
#pragma once

#include <string>

#include "tune/core/experiment/experiment_events.h"

namespace mobula::internal::tune {

// The file of a trial in the directory of an experiment.
std::string policy_file(const std::string& directory, TrialNumber trial);
// The file of the trial becomes that of the donor and a row for this exploit.
void append_policy(const std::string& directory, const TrialExploited& exploit);
// Removes the files before a resumed experiment repeats all exploits.
void remove_policies(const std::string& directory);

}  // namespace mobula::internal::tune
