// The progress of an experiment as one JSON object, for the page of the head: counts of trials, the
// best trial, its history, and rows of the best, the live, and the failed trials. Its size is
// bounded.
// Thread: any (a pure function).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tune/core/experiment/experiment_core.h"

namespace mobula::internal::tune {

struct SummaryContext {
  std::string name = {};
  std::string metric = {};
  Mode mode = Mode::min;
  std::string searcher = {}, scheduler = {};
  std::int64_t samples = 0;
  double elapsed_s = 0;
  std::string waiting = {};  // reason why the next trial waits
  bool finished = false;
};

// `nodes` has the node of the last attempt of each trial.
std::string experiment_summary(const ExperimentCore& core, const SummaryContext& context,
                               const std::map<TrialNumber, std::string>& nodes);

}  // namespace mobula::internal::tune
