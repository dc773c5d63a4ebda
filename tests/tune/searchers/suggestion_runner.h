// Runs traces of Optuna's samplers (tests/tune/oracle/optuna_oracle.py) on the searchers of Tune,
// and compares every suggested value. Periodically replaces the searcher by a new one with its
// saved state.
// Thread: owner. Errors: differences() lists the first ones.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "tune/core/searchers/search_algorithm.h"
#include "tune/trace_runner.h"

namespace mobula::internal::tune {

class SuggestionRunner {
 public:
  // Every `snapshot_interval` lines, the searcher is saved and loaded. 0: never.
  explicit SuggestionRunner(std::int64_t snapshot_interval) : interval_(snapshot_interval) {}

  void run(std::istream& trace);
  std::int64_t compared() const { return compared_; }
  std::int64_t difference_count() const { return difference_count_; }
  // Studies whose rest was not compared, because rounding alone decides between two candidates.
  std::int64_t ties() const { return ties_; }
  const std::vector<std::string>& differences() const { return differences_; }

 private:
  void step(const TraceWords& words);
  void begin(const TraceWords& words);
  void suggest(const TraceWords& words);
  void end(const TraceWords& words);
  void make_searcher();
  void snapshot();
  void check(bool same, const std::string& seen);
  SearchRandom random() { return {model_, startup_}; }

  std::int64_t interval_;
  std::int64_t line_ = 0, compared_ = 0, difference_count_ = 0, ties_ = 0;
  std::string text_;
  std::vector<std::string> differences_;
  TraceOptions options_;
  bool skipped_ = false;  // the rest of this study
  NumpyRandom model_, startup_;
  SearchAlgorithmPtr searcher_;
};

// A dimension from the words of a trace: "real f… f… slog", "integer i1 i5 i1", "category sa".
Dimension parse_dimension(const TraceWords& words, std::size_t first, std::size_t past);

}  // namespace mobula::internal::tune
