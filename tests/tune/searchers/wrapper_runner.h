// Runs traces of Ray's search wrappers and stoppers (tests/tune/oracle/wrapper_oracle.py) on those
// of Tune, and compares every answer and every result that reaches the wrapped searcher.
// Thread: owner. Errors: differences() lists the first ones.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "tune/core/searchers/search_algorithm.h"
#include "tune/core/stoppers/trial_stopper.h"
#include "tune/trace_runner.h"

namespace mobula::internal::tune {

// Answers as the trace says, and logs the results that reach it.
class ScriptedSearch final : public SearchAlgorithm {
 public:
  struct Script {
    Suggestion::Kind answer = Suggestion::Kind::config;
    bool limits_itself = false;
    std::vector<std::string> log = {};
  };
  explicit ScriptedSearch(Script& script) : script_(&script) {}

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void tell(TrialNumber trial, const TrialEnd& end) override;
  bool limit_concurrency(int /*most*/) override { return script_->limits_itself; }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view /*state*/) override { return {}; }

 private:
  Script* script_;
};

class WrapperRunner {
 public:
  explicit WrapperRunner(std::int64_t snapshot_interval) : interval_(snapshot_interval) {}

  void run(std::istream& trace);
  std::int64_t compared() const { return compared_; }
  std::int64_t difference_count() const { return difference_count_; }
  const std::vector<std::string>& differences() const { return differences_; }

 private:
  void step(const TraceWords& words);
  void make();
  void snapshot();
  void ask(const TraceWords& words);
  void tell(const TraceWords& words);
  void check(bool same, const std::string& seen);

  std::int64_t interval_;
  std::int64_t line_ = 0, compared_ = 0, difference_count_ = 0;
  std::string text_;
  std::vector<std::string> differences_;
  TraceWords header_;
  TraceOptions options_;
  NumpyRandom random_;
  ScriptedSearch::Script script_;
  SearchAlgorithmPtr searcher_;
  TrialStopperPtr stopper_;
};

}  // namespace mobula::internal::tune
