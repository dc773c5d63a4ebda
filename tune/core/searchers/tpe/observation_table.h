// The trials that the tree-structured Parzen estimator has seen: their parameters as columns, their
// states, and the division into good and other trials.
// Thread: owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/core/searchers/dimension.h"
#include "tune/core/searchers/tpe/parzen_estimator.h"
#include "tune/core/searchers/tpe/subset_selection.h"
#include "tune/core/trial_table.h"

namespace mobula::internal::tune {

enum class SearchState : unsigned char { absent, running, complete, pruned, failed };

// The end of a trial. Values are losses: smaller is better.
struct SearchOutcome {
  SearchState state = SearchState::complete;
  double loss = 0;                                     // loss of a complete trial
  std::optional<std::pair<double, double>> last = {};  // step and loss of the last report
  double violation = 0;                                // sum of the positive constraints
  Losses losses = {};  // losses of a complete trial with several objectives
};

// The observations of one parameter. A value that the model suggested counts while its trial runs,
// also before the program has read it.
class ObservationColumn {
 public:
  struct Entry {
    double value = 0;
    std::int32_t dimension = -1;  // index in dimensions; -1: the trial lacks the parameter
    bool read = false;            // by the program

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.value, self.dimension, self.read);
    }
  };

  // Stores a value; replaces an earlier one of the same trial.
  void set(TrialNumber trial, double value, const Dimension& dimension, bool read);
  void erase(TrialNumber trial);
  const Entry* find(TrialNumber trial) const;
  const Dimension& dimension(std::int32_t index) const {
    return dimensions_[static_cast<std::size_t>(index)];
  }
  // Trials with their values in model coordinates, in ascending order of (value, trial). Values
  // outside the domain of a logarithm are left out.
  const std::vector<std::pair<double, std::int32_t>>& sorted(bool log);
  // By trial; valid for the bounds of `dimension` alone.
  std::vector<CachedMass>& cache_for(const Dimension& dimension);

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.entries_, self.dimensions_);
    if constexpr (!std::is_const_v<Self>) self.forget_derived();
  }

 private:
  void forget_derived();
  void insert_sorted(TrialNumber trial, double value);
  void erase_sorted(TrialNumber trial, double value);

  using Sorted = std::vector<std::pair<double, std::int32_t>>;
  std::vector<Entry> entries_;  // by trial
  std::vector<Dimension> dimensions_;
  std::optional<Sorted> linear_, logarithmic_;  // made on demand, then kept up to date
  std::optional<Dimension> cached_dimension_;
  std::vector<CachedMass> cache_;
};

class ObservationTable {
 public:
  // The limit of the good trials, and the number that never grows beyond it.
  static constexpr std::size_t most_good = 25;

  // With several objectives, the number of good trials has no limit.
  explicit ObservationTable(bool several = false) : several_(several) {}

  void begin(TrialNumber trial);
  void set(TrialNumber trial, std::string_view name, double value, const Dimension& dimension,
           bool read);
  void end(TrialNumber trial, const SearchOutcome& outcome);

  std::size_t finished() const { return finished_; }  // complete and pruned trials
  SearchState state(TrialNumber trial) const;
  // The parameters that all finished trials have with equal dimensions, by name.
  const std::map<std::string, Dimension>& joint() const { return joint_; }
  // Whether the trial has a value that a searcher drew, unlike the only value of a dimension.
  bool has_sample(TrialNumber trial) const;
  // The value of an earlier suggestion for the trial.
  std::optional<double> suggested(TrialNumber trial, std::string_view name,
                                  const Dimension& dimension) const;

  // The two estimators for `dimensions`, from all trials but `present`.
  struct Estimators {
    ParzenEstimator good, other;
  };
  Estimators estimators(const std::map<std::string, Dimension>& dimensions, TrialNumber present);

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.states_, self.finished_, self.has_joint_, self.joint_, self.columns_,
            self.complete_, self.pruned_, self.infeasible_, self.losses_);
    if constexpr (!std::is_const_v<Self>) self.good_.reset();
  }

 private:
  using Key = std::pair<std::pair<double, double>, TrialNumber>;
  // Keeps the first `most_good` keys: no rule asks for later ones.
  void keep(std::vector<Key>& keys, const Key& key) const;
  void narrow_joint(TrialNumber trial);
  std::vector<TrialNumber> good_trials() const;
  // The good ones among the complete trials of several objectives.
  std::vector<TrialNumber> good_of_several(std::size_t wanted) const;
  // Whether the trial counts, and has every parameter.
  bool observed(TrialNumber trial, const std::vector<ObservationColumn*>& columns) const;
  ParzenEstimator estimator(const std::map<std::string, Dimension>& dimensions,
                            const std::vector<ObservationColumn*>& columns,
                            const std::vector<std::int32_t>& kernel_of,
                            const std::vector<std::int32_t>& rows,
                            ParzenEstimator::Weights weights);

  std::vector<SearchState> states_;  // by trial
  std::size_t finished_ = 0;
  bool has_joint_ = false;
  std::map<std::string, Dimension> joint_;
  std::map<std::string, ObservationColumn> columns_;
  std::vector<Key> complete_, pruned_, infeasible_;  // the best ones, in order
  bool several_;
  std::map<TrialNumber, Losses> losses_;          // feasible complete trials of several objectives
  std::optional<std::vector<TrialNumber>> good_;  // result of good_trials()
};

}  // namespace mobula::internal::tune
