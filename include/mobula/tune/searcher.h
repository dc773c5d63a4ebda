// Searchers suggest configurations (ask) and learn from results (report, tell).
// Thread: owner (the thread that runs the experiment). Errors: InvalidRequestError from the
// functions below for options that break a rule, and from `run` for a space without support.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/tune/config.h>

namespace mobula::tune {

// The end of a trial.
enum class State : std::uint8_t {
  complete,  // the trial has a result
  failed,    // the trial has no result
  pruned     // the trial was stopped early
};

// Random draws of one trial. Depends on the seed of the experiment and the trial alone, not on the
// order of events.
class MOBULA_API RandomStream {
 public:
  // Creates a stream.
  RandomStream(std::uint64_t seed, std::int64_t trial);
  RandomStream(const RandomStream&) = delete;
  RandomStream& operator=(const RandomStream&) = delete;
  ~RandomStream();

  // Returns a number in [0, 1).
  double uniform();
  // Returns a number of the normal distribution with mean 0 and deviation 1.
  double gauss();
  // Returns an integer in [0, n); n > 0.
  std::int64_t below(std::int64_t n);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The interface of searchers. Derive a class from it for your own search. A resumed experiment
// repeats its calls since the last saved state, or all of them without one, so equal calls must
// give equal suggestions; draw from `random` alone.
class MOBULA_API Searcher {
 public:
  // Destroys the searcher.
  virtual ~Searcher();

  // The answer of `ask`.
  struct Suggestion {
    // The kinds of answers.
    enum class Kind : std::uint8_t {
      config,   // a configuration
      later,    // none before another trial has ended
      finished  // none any more
    };
    Kind kind = Kind::later;  // kind of the answer
    Config config = {};       // configuration, for Kind::config
  };
  // Suggests the configuration of a new trial.
  virtual Suggestion ask(std::int64_t trial, RandomStream& random) = 0;
  // Learns from an intermediate report. Not called for a report that stops the trial.
  virtual void report(std::int64_t /*trial*/, const Metrics& /*metrics*/) {}
  // Learns from the last report of a trial that ended. `metrics` is empty without a report.
  virtual void tell(std::int64_t trial, const Metrics& metrics, State state) = 0;
  // Returns the state of the searcher. Empty: it cannot be saved.
  virtual std::string save() const { return {}; }
  // Restores a state that `save` returned. Called before any other function.
  virtual void load(const std::string& /*state*/) {}
};
// A searcher, shared with the experiment.
using SearcherPtr = std::shared_ptr<Searcher>;

// Options of BasicVariantGenerator.
struct VariantOptions {
  std::vector<Config> points_to_evaluate = {};  // first configurations; each replaces one sample
  bool constant_grid_search = false;  // draws random parameters once per sample, not per grid cell
};
// Options of SobolSearch.
struct SobolOptions {
  bool scramble = false;  // randomizes the points by the seed of the experiment
};
// Options of TPESearch.
struct TpeOptions {
  int n_startup_trials = 10;  // random trials before the first model
  int n_candidates = 24;      // candidates per suggestion
};
// Options of BayesOptSearch.
struct BayesOptOptions {
  std::string kind = "ucb";         // acquisition: ucb, ei, or poi
  double kappa = 2.576;             // ucb: weight of the deviation
  double xi = 0;                    // ei, poi: least improvement
  std::uint64_t random_state = 42;  // seed of the first points
  int random_search_steps = 10;     // random trials before the first model
  int patience = 5;                 // repeats of one configuration that end the search
  int repeat_float_precision = 5;   // digits that distinguish configurations
  bool skip_duplicate = true;       // suggests no configuration twice
};
// Options of GPSearch.
struct GpOptions {
  int n_startup_trials = 10;             // random trials before the first model
  bool deterministic_objective = false;  // true: equal configurations have equal results
};
// Options of CmaEsSearch.
struct CmaEsOptions {
  std::optional<double> sigma0 = {};  // initial step; default: a sixth of the range
  std::optional<int> popsize = {};    // default: 4 + floor(3 ln d)
};
// Options of Nsga2Search.
struct Nsga2Options {
  int population_size = 50;                  // trials of a generation
  double crossover_prob = 0.9;               // probability of two parents
  double swapping_prob = 0.5;                // probability of the second parent's value
  std::optional<double> mutation_prob = {};  // default: 1 / number of parameters
};
// Options of BOHBSearch.
struct BohbOptions {
  int top_n_percent = 15;            // share of good configurations
  int num_samples = 64;              // candidates per suggestion
  double random_fraction = 1.0 / 3;  // share of random configurations
  double bandwidth_factor = 3;       // widens the kernels of candidates
  double min_bandwidth = 1e-3;       // least bandwidth
};
// Options of ConcurrencyLimiter.
struct LimiterOptions {
  int max_concurrent = 1;  // live trials at one time
  bool batch = false;      // passes results on when all live trials have ended
};
// Options of Repeater.
struct RepeaterOptions {
  int repeat = 1;         // trials per suggestion
  bool set_index = true;  // adds the parameter __trial_index__
};

// Random and grid search.
MOBULA_API SearcherPtr BasicVariantGenerator(const VariantOptions& options = {});
// Quasi-random search along the Sobol sequence, which covers a space evenly.
MOBULA_API SearcherPtr SobolSearch(const SobolOptions& options = {});
// Tree-structured Parzen estimator for one objective, with constraints.
MOBULA_API SearcherPtr TPESearch(const TpeOptions& options = {});
// Gaussian process with the acquisition UCB, EI, or POI; ranges of numbers only.
MOBULA_API SearcherPtr BayesOptSearch(const BayesOptOptions& options = {});
// Gaussian process with the expected improvement, for one or several objectives, with constraints.
MOBULA_API SearcherPtr GPSearch(const GpOptions& options = {});
// Covariance matrix adaptation; TPE for categories.
MOBULA_API SearcherPtr CmaEsSearch(const CmaEsOptions& options = {});
// Genetic algorithm NSGA-II for one or several objectives, with constraints.
MOBULA_API SearcherPtr Nsga2Search(const Nsga2Options& options = {});
// Kernel density estimates per budget, for HyperBandForBOHB.
MOBULA_API SearcherPtr BOHBSearch(const BohbOptions& options = {});
// Limits the live trials of a searcher.
MOBULA_API SearcherPtr ConcurrencyLimiter(SearcherPtr searcher, const LimiterOptions& options);
// Repeats each suggestion. The searcher learns the mean of the results.
MOBULA_API SearcherPtr Repeater(SearcherPtr searcher, const RepeaterOptions& options);

}  // namespace mobula::tune
