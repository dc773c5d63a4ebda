// Ask and tell without a cluster, with a space that the program defines while it runs.
// Thread: owner. Errors: InvalidRequestError names the parameter or the trial.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mobula/tune/searcher.h>

namespace mobula::tune {

namespace detail {
class StudyState;
}  // namespace detail

// One trial of a study. Copies refer to the same trial.
class MOBULA_API Trial {
 public:
  // For the library.
  Trial(std::shared_ptr<detail::StudyState> study, std::int64_t number)
      : study_(std::move(study)), number_(number) {}

  // Suggests a number in [low, high).
  double uniform(const std::string& name, double low, double high);
  // Suggests a number in [low, high) whose logarithm is uniform; low > 0.
  double loguniform(const std::string& name, double low, double high);
  // Suggests an integer in [low, high).
  std::int64_t randint(const std::string& name, std::int64_t low, std::int64_t high);
  // Suggests one of the values.
  std::string choice(const std::string& name, const std::vector<std::string>& values);
  // Adds an intermediate report.
  void report(const Metrics& metrics);
  // Returns the number of the trial, from 0.
  std::int64_t number() const { return number_; }
  // Returns the suggested parameters.
  Config config() const;

 private:
  std::shared_ptr<detail::StudyState> study_;  // shared by the trials of a study
  std::int64_t number_ = 0;
};

// Options of a study.
struct StudyOptions {
  std::string metric = {};  // metric of the objective; empty: the only metric of `tell`
  Mode mode = Mode::min;    // direction of the metric
  std::uint64_t seed = 0;   // 0: drawn
  // Several objectives, in place of metric and mode, for TPESearch and Nsga2Search.
  std::vector<Objective> objectives = {};
  // Metrics with the upper limit 0, for TPESearch and Nsga2Search.
  std::vector<std::string> constraints = {};
};

// Trials whose parameters a searcher suggests one by one. The default searcher is TPESearch.
class MOBULA_API Study {
 public:
  // Begins a study.
  explicit Study(SearcherPtr searcher = {}, const StudyOptions& options = {});
  // Begins a trial.
  Trial ask();
  // Ends a trial with its result.
  void tell(const Trial& trial, const Metrics& metrics, State state = State::complete);
  // Returns the configuration of the best trial that satisfies the constraints. NotFoundError
  // without one; InvalidRequestError with several objectives.
  Config best() const;
  // Returns the configurations of the Pareto front: complete trials that satisfy the constraints,
  // and for which no other one is better in one objective and at least as good in the others.
  std::vector<Config> front() const;

 private:
  std::shared_ptr<detail::StudyState> state_;  // shared with the trials
};

}  // namespace mobula::tune
