// Runs the stages one after another within a time budget. Each line is appended to the record as it
// arrives. The page is rendered again after each stage. A run that is killed at any second
// therefore leaves a valid page.
// Thread: the main thread of mobula-gpu-check. Errors: exit codes, see run_stages. Not: the stages
// themselves.
#pragma once

#include <string>
#include <vector>

namespace mobula::internal::gpu_check {

struct RunOptions {
  std::string results;  // directory, created if it is missing
  double budget_s = 480;
  bool brief = false;               // the short form of every stage
  std::vector<std::string> only{};  // names of stages; empty: all
  int limit_s = 0;                  // upper bound of every stage's limit; 0: none
};

// Exit code 0: stages passed and none failed. 1: a stage failed. 2: wrong use. 3: no stage passed,
// for example without a driver. 128 + N: ended by signal N.
int run_stages(const RunOptions& options);

inline constexpr int nothing_passed = 3;

}  // namespace mobula::internal::gpu_check
