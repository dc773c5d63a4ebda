// Bayesian optimization after Optuna's GPSampler: a Gaussian process for each objective and
// constraint, and the logarithm of the expected improvement, or of the expected hypervolume
// improvement for several objectives. A running trial counts as a result at its predicted mean.
// Thread: owner (the searcher thread of one experiment). Errors: make() names the option.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/core/searchers/gaussian/acquisition.h"
#include "tune/core/searchers/gaussian/ard_process.h"
#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct GpSettings {
  std::vector<Mode> modes = {Mode::min};  // one for each objective
  int n_startup_trials = 10;
  bool deterministic_objective = false;
};

class GpSearch final : public SearchAlgorithm {
 public:
  // The model uses at most this number of trials, the best and the latest, because its cost is
  // cubic.
  static constexpr std::size_t max_model_trials = 400;

  static Result<std::unique_ptr<GpSearch>> make(const GpSettings& settings,
                                                const SearchSpace& space);

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  // A complete trial without a value for each objective has failed.
  void tell(TrialNumber trial, const TrialEnd& end) override;
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.live_, self.results_, self.raw_parameters_);
  }

 private:
  using Point = std::vector<double>;  // parameters by name, in [0, 1]

  struct TrialPoint {
    Point point = {};
    ObjectivePoint scores = {};  // larger is better
    std::vector<double> constraints = {};

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.point, self.scores, self.constraints);
    }
    bool feasible() const;
  };
  struct Model;

  GpSearch(const GpSettings& settings, const SearchSpace& space, std::vector<std::size_t> sorted);

  bool starting() const {
    return results_.size() < static_cast<std::size_t>(settings_.n_startup_trials);
  }
  Point random_point(NumpyRandom& random) const;
  // Returns the point whose parameters have values: coordinates of discrete ones are rounded.
  Point rounded(Point point) const;
  double value_at(const Point& point, std::size_t parameter) const;
  std::vector<TrialPoint> model_trials() const;
  Model fit_model(NumpyRandom& random);
  // Fits process number raw_parameters.size(), and appends its hyper-parameters.
  ArdProcess fit_process(const std::vector<TrialPoint>& trials, const std::vector<double>& values,
                         std::vector<ArdProcess::RawParameters>& raw_parameters) const;
  // Adds the Pareto front, the reference point, and the starts of the maximization to the model.
  void add_front(Model& model, const std::vector<TrialPoint>& trials,
                 const std::vector<ObjectivePoint>& scores) const;
  double live_penalty(const Point& point) const;
  double acquisition(const Model& model, const Point& point) const;
  Point best_point(const Model& model, NumpyRandom& random) const;
  Point climb(const Model& model, Point start) const;
  bool climb_discrete(const Model& model, Point& point, double& value) const;
  const Dimension& dimension(std::size_t parameter) const {
    return space_.parameters()[sorted_[parameter]].dimension;
  }
  // Returns the coordinates of a parameter with few values; empty for a continuous one.
  std::vector<double> grid_of(std::size_t parameter) const;

  GpSettings settings_;
  SearchSpace space_;
  std::vector<std::size_t> sorted_;  // parameters with several values, by name
  std::map<TrialNumber, Point> live_;
  std::vector<TrialPoint> results_;  // complete trials
  // Hyper-parameters of the last fit, by model: objectives, then constraints.
  std::vector<ArdProcess::RawParameters> raw_parameters_;
};

}  // namespace mobula::internal::tune
