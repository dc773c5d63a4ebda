// NSGA-II with the suggestions of Optuna 5.0, for one or several objectives: generations of trials,
// parents by nondomination rank and crowding distance, uniform crossover, mutation by random draws.
// Thread: owner (the searcher thread of one experiment). Errors: make() names the option.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/core/searchers/genetic/nondomination.h"
#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct NsgaSettings {
  std::vector<Mode> modes = {Mode::min};  // one for each objective
  int population_size = 50;
  double crossover_prob = 0.9, swapping_prob = 0.5;
  std::optional<double> mutation_prob = {};  // default: 1 / number of parameters
};

class NsgaSearch final : public SearchAlgorithm {
 public:
  // An empty space: only define-by-run trials.
  static Result<std::unique_ptr<NsgaSearch>> make(const NsgaSettings& settings,
                                                  const SearchSpace& space);

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  // A complete trial without a value for each objective has failed.
  void tell(TrialNumber trial, const TrialEnd& end) override;
  Result<void> begin(TrialNumber trial, SearchRandom random) override;
  Result<Value> suggest(TrialNumber trial, std::string_view name, const Dimension& dimension,
                        SearchRandom random) override;
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.live_, self.individuals_, self.parents_, self.parents_generation_, self.joint_,
            self.has_joint_, self.max_generation_, self.max_generation_count_);
  }

 private:
  using Genes = std::map<std::string, double>;  // values by parameter, as Dimension::internal

  struct LiveTrial {
    std::int64_t generation = -1;  // -1: no parameter was suggested
    Genes child = {};              // inherited values
    Genes genes = {};              // suggested values
    std::map<std::string, Dimension> dimensions = {};

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.generation, self.child, self.genes, self.dimensions);
    }
  };
  // A complete trial.
  struct Individual {
    TrialNumber trial = 0;
    std::int64_t generation = 0;
    Genes genes = {};
    Losses values = {};  // in the direction of the user
    bool constrained = false;
    double penalty = 0;  // sum of the positive constraints

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.trial, self.generation, self.genes, self.values, self.constrained, self.penalty);
    }
  };

  NsgaSearch(const NsgaSettings& settings, const SearchSpace& space)
      : settings_(settings), space_(space) {}

  std::int64_t next_generation() const;
  // Joins the next generation and inherits values, at the first parameter.
  void join_generation(LiveTrial& trial, NumpyRandom& random);
  // The parents of a generation above 0. The first call of a generation has the order of the
  // selection, later calls that of trial numbers.
  std::vector<Individual> parents_of(std::int64_t generation);
  std::vector<Individual> select(std::vector<Individual> population) const;
  Losses losses_of(const Individual& individual) const;
  bool beats(const Individual& a, const Individual& b, bool constrained) const;
  const Individual& pick(const std::vector<const Individual*>& population, bool constrained,
                         NumpyRandom& random) const;
  Genes breed(const std::vector<Individual>& parents, NumpyRandom& random) const;
  std::optional<Genes> cross(const std::vector<Individual>& parents, bool constrained,
                             NumpyRandom& random) const;
  void meet(const std::map<std::string, Dimension>& dimensions);

  NsgaSettings settings_;
  SearchSpace space_;
  std::map<TrialNumber, LiveTrial> live_;
  // Individuals of the generations from the last parents on, by trial number.
  std::map<TrialNumber, Individual> individuals_;
  std::vector<Individual> parents_;  // of parents_generation_, by trial number
  std::int64_t parents_generation_ = 0;
  std::map<std::string, Dimension> joint_;  // parameters of all complete trials
  bool has_joint_ = false;
  std::int64_t max_generation_ = 0;
  std::int64_t max_generation_count_ = 0;
};

}  // namespace mobula::internal::tune
