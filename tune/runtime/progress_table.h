// The progress of an experiment: a table that a terminal redraws, otherwise lines.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tune/core/experiment/experiment_core.h"

namespace mobula::internal::tune {

struct ProgressOptions {
  std::string name = {};
  std::string metric = {};
  Mode mode = Mode::min;
  int verbose = 1;
  bool terminal = false;
};

// The state outside the core.
struct ProgressView {
  double elapsed_s = 0;
  std::string waiting = {};    // why the next trial waits; empty: it does not
  std::string resources = {};  // resources of running trials
  const std::map<TrialNumber, std::string>* nodes = nullptr;  // nodes of the last attempts
  std::size_t columns = 160, lines = 1'000'000'000;           // size of the terminal
};

class ProgressTable {
 public:
  explicit ProgressTable(ProgressOptions options) : options_(std::move(options)) {}

  // The table: counts, the best trial, resources, at most 20 rows, and why the next trial waits.
  // No line is wider than the terminal, and the table is lower than it.
  std::string render(const ExperimentCore& core, const ProgressView& view) const;
  // One line with the counts and the best trial.
  std::string summary(const ExperimentCore& core, double elapsed_s) const;
  // True if show() prints now: at most 4 times a second on a terminal, otherwise every 5 s.
  bool is_due(double elapsed_s) const;
  // Prints to the standard error output. The last table stays.
  void show(const ExperimentCore& core, ProgressView view, bool last);

 private:
  std::string counts(const ExperimentCore& core, double elapsed_s) const;
  std::string best(const ExperimentCore& core) const;
  std::string row(const ExperimentCore& core, const ProgressView& view, TrialNumber trial) const;

  ProgressOptions options_;
  double shown_at_s_ = -1e9;
  std::string shown_;
};

}  // namespace mobula::internal::tune
