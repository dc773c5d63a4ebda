// The progress of an experiment on the terminal: a table on a terminal, otherwise lines.
// Thread: owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "tune/core/experiment/experiment_core.h"

namespace mobula::internal::tune {

struct ProgressOptions {
  std::string name = {};
  std::string metric = {};
  Mode mode = Mode::min;
  int verbose = 1;
  bool terminal = false;
};

class ProgressTable {
 public:
  explicit ProgressTable(ProgressOptions options) : options_(std::move(options)) {}

  // The table: at most 20 rows, counts, the best trial, and why the next trial waits.
  std::string render(const ExperimentCore& core, double elapsed_s,
                     const std::string& waiting) const;
  // One line with the counts and the best trial.
  std::string summary(const ExperimentCore& core, double elapsed_s) const;
  // Prints to the standard error output, at most 4 times a second on a terminal, and at most every
  // 5 s otherwise, unless it is the last time.
  void show(const ExperimentCore& core, double elapsed_s, const std::string& waiting, bool last);
  bool terminal() const { return options_.terminal; }

 private:
  ProgressOptions options_;
  double shown_at_s_ = -1e9;
  std::string shown_;
  int shown_lines_ = 0;
};

}  // namespace mobula::internal::tune
