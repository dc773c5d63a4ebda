// Runs an experiment on the cluster that init joined.
// Thread: any; run and fit block until the experiment ends.
// Errors: InvalidRequestError before the first trial starts; errors of trials are in their results.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/tune_trainable.h>
#include <mobula/options.h>
#include <mobula/tune/resources.h>
#include <mobula/tune/scheduler.h>
#include <mobula/tune/searcher.h>
#include <mobula/tune/space.h>
#include <mobula/tune/stopper.h>

namespace mobula::tune {

// The result of one trial.
struct TrialResult {
  std::int64_t trial = 0;                  // number of the trial, from 0
  Config config = {};                      // parameters at the end
  Metrics metrics = {};                    // last report
  std::string error = {};                  // empty: no error
  std::vector<std::string> warnings = {};  // for example metrics that are NaN
  int attempts = 0;                        // starts, with those after a pause
  std::string checkpoint = {};             // directory of the last checkpoint
};

namespace detail {
// The trials of a grid, in memory or in the file of an experiment.
class ResultSource {
 public:
  // Destroys the source.
  virtual ~ResultSource() = default;
  // Returns the number of trials.
  virtual std::size_t size() const = 0;
  // Visits the trials by number.
  virtual void each(const std::function<void(TrialResult&&)>& visit) const = 0;
};
}  // namespace detail

// The results of an experiment. A grid of more than 1,000 trials reads them from the file of the
// experiment at each call, and needs the file. Thread: owner.
class MOBULA_API ResultGrid {
 public:
  // For the library.
  ResultGrid(std::vector<TrialResult> results, std::vector<Objective> objectives,
             std::vector<std::string> constraints);
  // For the library.
  ResultGrid(std::shared_ptr<const detail::ResultSource> source, std::vector<Objective> objectives,
             std::vector<std::string> constraints);
  // Returns the trial with the best last report that satisfies the constraints. NotFoundError if no
  // trial reported the metric; InvalidRequestError with several objectives.
  const TrialResult& best() const;
  // Returns the Pareto front of the last reports that satisfy the constraints: trials for which no
  // other trial is better in one objective and at least as good in the others.
  std::vector<TrialResult> front() const;
  // Returns all trials by number, and keeps them in memory.
  std::span<const TrialResult> all() const;
  // Visits all trials by number, with the memory of one.
  void each(const std::function<void(const TrialResult&)>& visit) const;
  // Returns the number of trials.
  std::size_t size() const;

 private:
  bool valid(const TrialResult& result) const;

  std::shared_ptr<const detail::ResultSource> source_;  // shared by copies of the grid
  std::vector<Objective> objectives_;
  std::vector<std::string> constraints_;
  mutable std::shared_ptr<const std::vector<TrialResult>> all_;  // shared by copies of the grid
  mutable std::shared_ptr<const TrialResult> best_;              // shared by copies of the grid
};

// Functions of the driver that follow an experiment. An exception becomes a warning.
class MOBULA_API Callback {
 public:
  // Destroys the callback.
  virtual ~Callback();
  // An attempt of a trial starts.
  virtual void on_trial_start(std::int64_t /*trial*/, const Config& /*config*/) {}
  // A trial has reported.
  virtual void on_trial_result(std::int64_t /*trial*/, const Metrics& /*metrics*/) {}
  // A trial has ended without an error.
  virtual void on_trial_complete(std::int64_t /*trial*/, const Metrics& /*last*/) {}
  // A trial has failed.
  virtual void on_trial_error(std::int64_t /*trial*/, const std::string& /*error*/) {}
  // A checkpoint was saved.
  virtual void on_checkpoint(std::int64_t /*trial*/, const std::string& /*directory*/) {}
  // The experiment has ended.
  virtual void on_experiment_end(const ResultGrid& /*results*/) {}
};
// A callback, shared with the experiment.
using CallbackPtr = std::shared_ptr<Callback>;

// Rules for the checkpoints of each trial.
struct CheckpointConfig {
  std::optional<int> num_to_keep = {};  // the last checkpoint is always kept
  std::string score_attribute = {};     // metric that orders checkpoints; empty: the newest stay
  Mode score_order = Mode::max;         // direction of score_attribute
};
// Rules for trials that fail.
struct FailureConfig {
  // The reaction of the experiment.
  enum class FailFast : std::uint8_t {
    no,    // other trials continue
    soon,  // all trials stop
    raise  // all trials stop, and `run` throws an Error
  };
  int max_failures = 0;               // repeats of one trial; -1: unlimited
  FailFast fail_fast = FailFast::no;  // reaction of the experiment
};
// The reuse of processes.
enum class ReuseActors : std::uint8_t {
  automatic,  // classes with `reset` and without GPUs
  never,      // each attempt has a new process
  always      // the next trial of a group runs in the same process
};
// An existing experiment of the same name.
enum class Resume : std::uint8_t {
  no,         // is an error
  automatic,  // continues, if it exists
  required    // continues, and has to exist
};
// A searcher that suggests the configuration of an earlier trial again.
enum class OnDuplicate : std::uint8_t {
  evaluate,  // runs the trial
  reuse,     // takes the result of the earlier trial if it is complete, without a run
  resample   // asks the searcher again, at most 15 times
};
// The durability of reports.
enum class Durability : std::uint8_t {
  strict,  // a trial continues after its report is on disk
  relaxed  // a power failure may lose the last reports
};
// Parameters of an experiment.
struct RunOptions {
  std::string name = {};    // name of the experiment; empty: program and time
  std::string metric = {};  // metric of the objective
  Mode mode = Mode::min;    // direction of the metric
  Space space = {};         // parameters
  int num_samples = 1;      // samples; a grid multiplies them
  ResourcesPerTrial resources_per_trial = {{"cpu", 1}};  // group of each trial
  SearcherPtr search_alg = {};                           // default: BasicVariantGenerator
  SchedulerPtr scheduler = {};                           // default: FIFOScheduler
  std::optional<int> max_concurrent_trials = {};         // live trials at one time
  std::optional<Duration> time_budget = {};              // end of the experiment
  Stop stop = {};                                        // limits of each trial
  CheckpointConfig checkpoint = {};                      // rules for checkpoints
  FailureConfig failure = {};                            // rules for failures
  std::vector<Config> points_to_evaluate = {};           // first configurations
  std::uint64_t seed = 0;                                // 0: drawn and recorded
  ReuseActors reuse_actors = ReuseActors::automatic;     // reuse of processes
  // Directory of experiments that all nodes see; default: MOBULA_TUNE_STORAGE or ~/mobula_tune.
  std::string storage_path = {};
  Resume resume = Resume::no;                        // existing experiment of this name
  std::vector<CallbackPtr> callbacks = {};           // functions of the driver
  OnDuplicate on_duplicate = OnDuplicate::evaluate;  // configuration of an earlier trial
  Environment env = {};                              // variables of the trials
  int verbose = 1;                             // 0: no table; 1: a table; 2: a line per report
  Durability durability = Durability::strict;  // durability of reports
  // Several objectives, in place of metric and mode: GPSearch, Nsga2Search, SobolSearch, and random
  // search, without a scheduler that compares trials.
  std::vector<Objective> objectives = {};
  // Metrics with the upper limit 0, for TPESearch, GPSearch, and Nsga2Search.
  std::vector<std::string> constraints = {};
  // Keeps the whole event log, for a replay from the beginning.
  bool keep_events = false;
};

namespace detail {
// Runs an experiment of a type of trials.
MOBULA_API ResultGrid run_experiment(const Trainable& trainable, const RunOptions& options);
// The options with the place of an experiment that exists.
MOBULA_API RunOptions restored(const std::string& path, RunOptions options);
}  // namespace detail

// Runs trials of a function: void(const Config&) with calls of report, or Metrics(const Config&).
template <auto F>
ResultGrid run(const RunOptions& options) {
  static_assert(detail::is_trial_function<decltype(F)>,
                "mobula: tune::run<F> needs void(const tune::Config&) with calls of tune::report, "
                "or tune::Metrics(const tune::Config&)");
  if constexpr (detail::is_trial_function<decltype(F)>)
    return detail::run_experiment(detail::trainable<detail::FunctionTrial<F>>(), options);
}
// Runs trials of a class with setup(const Config&), Metrics step(), save(directory), and
// load(directory). Optionally bool reset(const Config&), which allows the next trial to reuse the
// process. A trial ends when its metric "done" is true, or when it is stopped.
template <class C>
ResultGrid run(const RunOptions& options) {
  static_assert(detail::is_trial_class<C>,
                "mobula: tune::run<C> needs setup(const tune::Config&), tune::Metrics step(), "
                "save(const std::string&), and load(const std::string&)");
  if constexpr (detail::is_trial_class<C>)
    return detail::run_experiment(detail::trainable<detail::ClassTrial<C>>(), options);
}

// Runs trials of a program. Exit code 0 completes a trial, and any other exit fails it. A stopped
// program gets SIGTERM, and SIGKILL after 3 s. Variables of the program: MOBULA_TUNE_CONFIG (a JSON
// file of the parameters), MOBULA_TUNE_CHECKPOINT (the directory to continue from, or empty),
// MOBULA_TUNE_DIRECTORY, MOBULA_TUNE_EXPERIMENT, MOBULA_TUNE_TRIAL, MOBULA_TUNE_ATTEMPT, and
// MOBULA_TUNE_SEED.
inline ResultGrid run(const Command& command, const RunOptions& options) {
  auto trainable = detail::trainable<detail::CommandTrial>();
  trainable.is_command = true;
  trainable.command = command;
  return detail::run_experiment(trainable, options);
}

// An experiment that runs later, as in Ray.
template <auto F>
class Tuner {
 public:
  static_assert(detail::is_trial_function<decltype(F)>,
                "mobula: Tuner<F> needs void(const tune::Config&) with calls of tune::report, or "
                "tune::Metrics(const tune::Config&)");

  // Stores the options.
  explicit Tuner(RunOptions options) : options_(std::move(options)) {}
  // Continues the experiment STORAGE/NAME, or NAME in the storage of the options. `fit` refuses
  // options with another space, metric, scheduler, searcher, or number of samples, and another
  // function, with an InvalidRequestError that names the difference.
  static Tuner restore(const std::string& path, RunOptions options,
                       const RestoreOptions& restore = {}) {
    Tuner tuner(detail::restored(path, std::move(options)));
    tuner.restore_ = restore;
    return tuner;
  }
  // Runs the experiment.
  ResultGrid fit() {
    auto trainable = detail::trainable<detail::FunctionTrial<F>>();
    trainable.restore = restore_;
    return detail::run_experiment(trainable, options_);
  }

 private:
  RunOptions options_;
  RestoreOptions restore_;
};

}  // namespace mobula::tune
