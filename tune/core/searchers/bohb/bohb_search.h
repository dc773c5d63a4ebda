// The searcher of BOHB: kernel density estimates of good and bad configurations per budget, with
// the rules of HpBandSter. It runs with the scheduler HyperBandForBOHB, which reports the budgets.
// Thread: owner (the searcher thread of one experiment). Errors: make() names the option.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct BohbSettings {
  Mode mode = Mode::min;
  int top_n_percent = 15, num_samples = 64;
  double random_fraction = 1.0 / 3, bandwidth_factor = 3, min_bandwidth = 1e-3;
};

class BohbSearch final : public SearchAlgorithm {
 public:
  static Result<std::unique_ptr<BohbSearch>> make(const BohbSettings& settings,
                                                  const SearchSpace& space);

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void budget_reached(TrialNumber trial, double budget, double value) override;
  void tell(TrialNumber trial, const TrialEnd& end) override;
  void paused(TrialNumber trial) override;
  void resumed(TrialNumber trial) override;
  bool limit_concurrency(int most) override;
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.live_, self.running_, self.results_);
    if constexpr (!std::is_const_v<Self>) self.build_model();
  }

 private:
  // One coordinate per parameter: numbers in [0, 1], categories as indices.
  using Point = std::vector<double>;
  struct Density {
    std::vector<Point> points = {};
    std::vector<double> bandwidths = {};
    std::vector<double> levels = {};  // distinct values of a category
  };
  struct Model {
    double budget = -1;  // no model
    Density good = {}, bad = {};
  };

  BohbSearch(const BohbSettings& settings, const SearchSpace& space)
      : settings_(settings), space_(space) {}
  const Dimension& dimension(std::size_t i) const { return space_.parameters()[i].dimension; }
  double to_unit(std::size_t i, double value) const;
  double from_unit(std::size_t i, double unit) const;
  Point random_point(NumpyRandom& random) const;
  Point model_point(NumpyRandom& random) const;
  double sample_near(std::size_t i, double center, double bandwidth, NumpyRandom& random) const;
  Density density_of(std::vector<Point> points) const;
  double density_at(const Density& density, const Point& point) const;
  // The model of the largest budget with enough results.
  void build_model();

  BohbSettings settings_;
  SearchSpace space_;
  int most_running_ = 0;  // 0: no limit
  std::map<TrialNumber, Point> live_;
  std::set<TrialNumber> running_;
  std::map<double, std::vector<std::pair<double, Point>>> results_;  // losses by budget
  Model model_;
};

}  // namespace mobula::internal::tune
