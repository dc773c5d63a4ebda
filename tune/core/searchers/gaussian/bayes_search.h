// Bayesian optimization with a Gaussian process (UCB, EI, or POI), as Ray's BayesOptSearch with
// bayesian-optimization 1.4.3. The first points are random, and equal those of Ray.
// Thread: owner (the searcher thread of one experiment). Errors: make() names the option or the
// parameter; only ranges of numbers are possible.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tune/core/searchers/gaussian/matern_process.h"
#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct BayesSettings {
  enum class Kind : unsigned char { ucb, ei, poi };
  Mode mode = Mode::min;
  Kind kind = Kind::ucb;
  double kappa = 2.576, xi = 0;
  int random_search_steps = 10, patience = 5, repeat_float_precision = 5;
  bool skip_duplicate = true;
};

class BayesSearch final : public SearchAlgorithm {
 public:
  static Result<std::unique_ptr<BayesSearch>> make(const BayesSettings& settings,
                                                   const SearchSpace& space);

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void tell(TrialNumber trial, const TrialEnd& end) override;
  void stalled() override;
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.live_, self.points_, self.targets_, self.suggestions_, self.begun_, self.ended_,
            self.finished_, self.awaits_result_);
  }

 private:
  using Point = std::vector<double>;

  BayesSearch(const BayesSettings& settings, const SearchSpace& space);
  bool random_phase() const { return ended_ < settings_.random_search_steps; }
  Point random_point(NumpyRandom& random) const;
  Point best_point(NumpyRandom& random) const;
  MaternProcess fitted_process() const;
  double live_penalty(std::span<const double> x) const;
  double acquisition(const MaternProcess& process, double best, std::span<const double> x) const;
  std::string key_of(const Point& point) const;

  BayesSettings settings_;
  SearchSpace space_;
  std::vector<std::size_t> sorted_;  // parameters by name
  std::map<TrialNumber, Point> live_;
  std::vector<Point> points_;                        // with results, in order of completion
  std::vector<double> targets_;                      // larger is better
  std::map<std::string, std::int64_t> suggestions_;  // by rounded point
  std::int64_t begun_ = 0, ended_ = 0;               // trials of the random phase
  bool finished_ = false;
  bool awaits_result_ = false;  // the last suggestion repeated one whose result may be pending
};

}  // namespace mobula::internal::tune
