// The content of the public schedulers and stoppers: a recipe makes the rule when the experiment
// has its mode and metric. Schedulers of users are adapted.
// Thread: owner. Errors: make functions name the option.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobula/tune/scheduler.h>
#include <mobula/tune/stopper.h>

#include "tune/core/schedulers/hyperband.h"
#include "tune/core/stoppers/trial_stopper.h"

namespace mobula::tune {

// The content of a public stopper.
class Stopper {
 public:
  virtual ~Stopper() = default;
  virtual internal::Result<internal::tune::TrialStopperPtr> make() const = 0;
};

}  // namespace mobula::tune

namespace mobula::internal::tune {

// The metrics of the last reports, for rules that pass them to user code.
class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  virtual mobula::tune::Metrics last_metrics(TrialNumber trial) const = 0;
};

struct SchedulerPlan {
  std::string metric = {};
  Mode mode = Mode::min;
  const MetricsSource* metrics = nullptr;  // outlives the scheduler
};

struct MadeScheduler {
  TrialSchedulerPtr rule;
  std::string name = {};
  std::string time_attr = "training_iteration";
  const HyperBandScheduler* budgets = nullptr;
  bool needs_metric = true;
  bool mutates = false;            // population based training: excludes a searcher
  bool needs_population = false;   // trials have to exist before they run
  bool changes_resources = false;  // groups differ between trials
};

class SchedulerRecipe : public mobula::tune::Scheduler {
 public:
  virtual Result<MadeScheduler> make(const SchedulerPlan& plan) const = 0;
  // A recipe decides nothing itself.
  mobula::tune::Decision on_trial_result(std::int64_t trial,
                                         const mobula::tune::Metrics& metrics) final;
};

// A null scheduler is FIFO.
Result<MadeScheduler> make_scheduler(const mobula::tune::SchedulerPtr& scheduler,
                                     const SchedulerPlan& plan);
// Limits and rules, and `time_budget_s` if it is positive.
Result<TrialStopperPtr> make_stopper(const mobula::tune::Stop& stop, double time_budget_s);

}  // namespace mobula::internal::tune
