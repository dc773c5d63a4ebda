// Schedulers decide after each report: continue, pause, or stop.
// Thread: owner (the thread that runs the experiment). Errors: InvalidRequestError from `run` for
// options that break a rule; it names the option.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/tune/resources.h>
#include <mobula/tune/space.h>

namespace mobula::tune {

// The decision about a running trial.
enum class Decision : std::uint8_t {
  proceed,  // the trial continues
  pause,    // the trial releases its resources and continues later from its checkpoint
  stop      // the trial ends
};

// The interface of schedulers. Derive a class from it for your own rule; every function but
// `on_trial_result` has a default. A resumed experiment repeats its calls since the last saved
// state, or all of them without one, so equal calls must give equal decisions.
class MOBULA_API Scheduler {
 public:
  // Destroys the scheduler.
  virtual ~Scheduler();
  // Adds a trial, or a trial that is repeated after a failure.
  virtual void on_trial_add(std::int64_t /*trial*/, const Config& /*config*/) {}
  // Decides about a running trial after a report.
  virtual Decision on_trial_result(std::int64_t trial, const Metrics& metrics) = 0;
  // Removes a running trial that has ended.
  virtual void on_trial_complete(std::int64_t /*trial*/, const Metrics& /*last*/) {}
  // Removes a trial that has failed.
  virtual void on_trial_error(std::int64_t /*trial*/) {}
  // Removes a pending or paused trial.
  virtual void on_trial_remove(std::int64_t /*trial*/) {}
  // Selects the trial to start next. Both lists are in the order of the trials. The default is the
  // first pending trial, otherwise the first paused one.
  virtual std::optional<std::int64_t> choose_trial_to_run(const std::vector<std::int64_t>& pending,
                                                          const std::vector<std::int64_t>& paused);
  // Returns the state of the scheduler. Empty: it cannot be saved.
  virtual std::string save() const { return {}; }
  // Restores a state that `save` returned. Called before any other function.
  virtual void load(const std::string& /*state*/) {}
};
// A scheduler, shared with the experiment.
using SchedulerPtr = std::shared_ptr<Scheduler>;

// Options of AsyncHyperBandScheduler.
struct AsyncHyperBandOptions {
  // The two forms of the rule.
  enum class Type : std::uint8_t {
    stopping,  // as in Ray: a trial below the quantile of its rung stops
    promotion  // as in the paper: trials pause at each rung, and the best continue
  };
  std::string time_attr = "training_iteration";  // metric that counts time
  double max_t = 100;                            // time at which a trial ends
  double grace_period = 1;                       // first rung
  double reduction_factor = 4;                   // ratio of two rungs
  int brackets = 1;                              // number of brackets
  bool stop_last_trials = true;                  // whether trials end at max_t
  Type type = Type::stopping;                    // form of the rule
};
// Options of HyperBandScheduler and HyperBandForBOHB.
struct HyperBandOptions {
  std::string time_attr = "training_iteration";  // metric that counts time
  double max_t = 81;                             // time at which a trial ends
  double reduction_factor = 3;                   // ratio of two rounds
  bool stop_last_trials = true;                  // whether trials end at max_t
};
// Options of MedianStoppingRule.
struct MedianStoppingOptions {
  std::string time_attr = "time_total_s";  // metric that counts time
  double grace_period = 60;                // time before the first decision
  double min_time_slice = 0;               // least time between two pauses of a trial
  int min_samples_required = 3;            // least number of other trials
  bool hard_stop = true;                   // false: pauses the trial in place of a stop
};
// Options of PopulationBasedTraining.
struct PbtOptions {
  std::string time_attr = "time_total_s";  // metric that counts time
  double perturbation_interval = 60;       // time between two perturbations of a trial
  double burn_in_period = 0;               // time before the first perturbation
  Space hyperparam_mutations = {};         // parameters that change
  double quantile_fraction = 0.25;         // share of good and bad trials; 0 to 0.5
  double resample_probability = 0.25;      // probability of a new draw
  std::vector<double> perturbation_factors = {1.2, 0.8};        // factors of a perturbation
  std::function<Config(const Config&)> custom_explore_fn = {};  // last step of a perturbation
  bool synch = false;  // whether all trials are perturbed at the same time
  bool clamp = true;   // whether perturbed values stay in their ranges; absent in Ray
};
// Options of PB2.
struct Pb2Options {
  std::string time_attr = "time_total_s";  // metric that counts time
  double perturbation_interval = 60;       // time between two perturbations of a trial
  // Low and high of each parameter that changes.
  std::map<std::string, std::pair<double, double>> hyperparam_bounds = {};
  double quantile_fraction = 0.25;  // share of good and bad trials; 0 to 0.5
  bool synch = false;               // whether all trials are perturbed at the same time
};
// The rule of ResourceChangingScheduler that gives the free CPUs and GPUs of the cluster to running
// trials. The amounts of the cluster are those at the start of the experiment.
struct DistributeResources {
  bool add_bundles = false;  // adds bundles to a group; false: its only bundle grows
  Resources increase_by =
      {};  // least increase; default: 1 GPU if trials have GPUs, otherwise 1 CPU
  int increase_by_times = -1;        // most increases of a trial; -1: no limit
  Resources reserve_resources = {};  // amounts that stay free
  bool to_top_job = false;           // true: all to the trial with the best last report
};
// Returns the new group of a trial that reported, or nothing to keep its group.
using ResourceAllocation =
    std::function<std::optional<PlacementGroupFactory>(std::int64_t trial, const Metrics&)>;

// Trials start in order and run to their end.
MOBULA_API SchedulerPtr FIFOScheduler();
// Asynchronous successive halving (ASHA).
MOBULA_API SchedulerPtr AsyncHyperBandScheduler(const AsyncHyperBandOptions& options = {});
// The same as AsyncHyperBandScheduler.
MOBULA_API SchedulerPtr ASHAScheduler(const AsyncHyperBandOptions& options = {});
// HyperBand with synchronous rounds.
MOBULA_API SchedulerPtr HyperBandScheduler(const HyperBandOptions& options = {});
// HyperBand for BOHBSearch.
MOBULA_API SchedulerPtr HyperBandForBOHB(const HyperBandOptions& options = {});
// Stops a trial whose best result is below the median of the others.
MOBULA_API SchedulerPtr MedianStoppingRule(const MedianStoppingOptions& options = {});
// Population based training. Weak trials continue from the checkpoints of strong ones, with
// perturbed parameters. Excludes a searcher.
MOBULA_API SchedulerPtr PopulationBasedTraining(const PbtOptions& options);
// Repeats the parameter changes of one trial. A PBT experiment records them as JSON rows in
// STORAGE/NAME/policies/pbt_policy_NUMBER.txt. Excludes a searcher and a second trial.
MOBULA_API SchedulerPtr PopulationBasedTrainingReplay(const std::string& policy_file);
// Population based bandits: population based training that draws new values from a Gaussian
// process, which models the changes of the metric. Excludes a searcher.
MOBULA_API SchedulerPtr PB2(const Pb2Options& options);
// Changes the groups of trials by a function of the driver, while `base` lets them continue. Each
// continues in its new group from its checkpoint.
MOBULA_API SchedulerPtr ResourceChangingScheduler(SchedulerPtr base, ResourceAllocation allocation);
// Distributes the free resources of the cluster to trials, while `base` lets them continue.
MOBULA_API SchedulerPtr ResourceChangingScheduler(SchedulerPtr base = {},
                                                  const DistributeResources& rule = {});

}  // namespace mobula::tune
