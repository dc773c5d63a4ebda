// The mutation of one configuration in population based training.
// Thread: owner. Errors: check_mutations names the parameter.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/core/schedulers/trial_scheduler.h"
#include "tune/core/space/search_space.h"

namespace mobula::internal::tune {

using ExploreFunction = std::function<Config(const Config&)>;

struct ExploreRules {
  Space mutations = {};
  double resample_probability = 0.25;
  std::vector<double> perturbation_factors = {1.2, 0.8};
  ExploreFunction custom = {};
  bool clamp = true;  // keeps perturbed values within their ranges; absent in Ray
};

// Suggests the configuration of a trial that exploits another one, in place of explore().
class ExploreModel {
 public:
  virtual ~ExploreModel() = default;
  // A result that the scheduler has stored. Larger scores are better.
  virtual void record(TrialNumber trial, double time, double score, const Config& config) = 0;
  virtual Config suggest(TrialNumber recipient, TrialNumber donor, const Config& donor_config,
                         NumpyRandom& random) = 0;
  virtual std::string save() const = 0;
  virtual Result<void> load(std::string_view state) = 0;
};

// Grids, and choices of text, which cannot be multiplied, are errors.
Result<void> check_mutations(const Space& mutations);
// Samples the mutated parameters that `config` lacks.
void fill_config(Config& config, const Space& mutations, TuneRandom& random);
// Text in place of a number is an error that names the parameter.
Result<void> check_config(const Config& config, const Space& mutations);
Result<Config> explore(const Config& config, const ExploreRules& rules, TuneRandom& random);

}  // namespace mobula::internal::tune
