#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <exception>
#include <fstream>
#include <functional>
#include <utility>

#include <mobula/cluster.h>

#include "base/text/json_writer.h"
#include "tune/api/core_values.h"
#include "tune/api/scheduler_recipe.h"
#include "tune/core/schedulers/median_stopping.h"
#include "tune/core/schedulers/population_bandit.h"
#include "tune/core/schedulers/population_training.h"
#include "tune/core/schedulers/resource_distribution.h"
#include "tune/core/schedulers/successive_halving.h"

namespace mobula::tune {

Scheduler::~Scheduler() = default;

std::optional<std::int64_t> Scheduler::choose_trial_to_run(
    const std::vector<std::int64_t>& pending, const std::vector<std::int64_t>& paused) {
  if (!pending.empty()) return pending.front();
  if (!paused.empty()) return paused.front();
  return std::nullopt;
}

}  // namespace mobula::tune

namespace mobula::internal::tune {

api::Decision SchedulerRecipe::on_trial_result(std::int64_t /*trial*/,
                                               const api::Metrics& /*metrics*/) {
  refuse_tune("on_trial_result", "a scheduler of the library belongs to an experiment");
}

namespace {

using MakeScheduler = std::function<Result<MadeScheduler>(const SchedulerPlan&)>;

class FunctionRecipe final : public SchedulerRecipe {
 public:
  explicit FunctionRecipe(MakeScheduler make_scheduler) : make_(std::move(make_scheduler)) {}
  Result<MadeScheduler> make(const SchedulerPlan& plan) const override { return make_(plan); }

 private:
  MakeScheduler make_;
};

api::SchedulerPtr recipe(MakeScheduler make_scheduler) {
  return std::make_shared<FunctionRecipe>(std::move(make_scheduler));
}

Result<MadeScheduler> made_of(Result<TrialSchedulerPtr> rule, const char* name,
                              std::string time_attr) {
  if (!rule) return rule.error();
  MadeScheduler made{.name = name, .time_attr = std::move(time_attr)};
  made.rule = std::move(*rule);
  return made;
}

MadeScheduler fifo() {
  MadeScheduler made{.name = "FIFOScheduler", .needs_metric = false};
  made.rule = make_fifo_scheduler();
  return made;
}

api::SchedulerPtr hyperband_recipe(const api::HyperBandOptions& options, bool for_bohb) {
  return recipe([=](const SchedulerPlan& plan) -> Result<MadeScheduler> {
    auto rule = make_hyperband({.mode = plan.mode,
                                .max_t = options.max_t,
                                .reduction_factor = options.reduction_factor,
                                .stop_last_trials = options.stop_last_trials,
                                .for_bohb = for_bohb});
    if (!rule) return rule.error();
    MadeScheduler made{.name = for_bohb ? "HyperBandForBOHB" : "HyperBandScheduler",
                       .time_attr = options.time_attr,
                       .budgets = for_bohb ? rule->get() : nullptr,
                       .needs_population = true};
    made.rule = std::move(*rule);
    return made;
  });
}

// A scheduler of the user.
class UserScheduler final : public TrialScheduler {
 public:
  UserScheduler(api::SchedulerPtr scheduler, const MetricsSource& source)
      : scheduler_(std::move(scheduler)), source_(source) {}

  Result<void> added(TrialNumber trial, SchedulerStep step) override {
    return guarded<void>(trial, [&]() -> Result<void> {
      scheduler_->on_trial_add(trial, api_config(step.trials.row(trial).config));
      return {};
    });
  }
  Result<Decision> reported(const Report& report, SchedulerStep /*step*/) override {
    return guarded<Decision>(report.trial, [&]() -> Result<Decision> {
      switch (scheduler_->on_trial_result(report.trial, source_.last_metrics(report.trial))) {
        case api::Decision::pause: return Decision::pause;
        case api::Decision::stop: return Decision::stop;
        default: return Decision::proceed;
      }
    });
  }
  void completed(const Report& last, SchedulerStep /*step*/) override {
    scheduler_->on_trial_complete(last.trial, source_.last_metrics(last.trial));
  }
  void failed(TrialNumber trial, SchedulerStep /*step*/) override {
    scheduler_->on_trial_error(trial);
  }
  void removed(TrialNumber trial, SchedulerStep /*step*/) override {
    scheduler_->on_trial_remove(trial);
  }
  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return scheduler_->choose_trial_to_run(step.trials.all(TrialState::pending),
                                           step.trials.all(TrialState::paused));
  }
  // Without a saved state, a resumed experiment repeats all calls.
  bool can_save() const override { return !scheduler_->save().empty(); }
  std::string save() const override { return scheduler_->save(); }
  Result<void> load(std::string_view state) override {
    try {
      scheduler_->load(std::string(state));
      return {};
    } catch (const std::exception& error) {
      return failure(ErrorCode::corrupt, fmt::format("scheduler: load: {}", error.what()));
    }
  }

 private:
  template <class T, class F>
  Result<T> guarded(TrialNumber trial, const F& call) {
    try {
      return call();
    } catch (const std::exception& error) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("trial {}: scheduler: {}", trial, error.what()));
    }
  }

  api::SchedulerPtr scheduler_;
  const MetricsSource& source_;
};

// The allocation function of the user.
AllocationFunction user_allocation(const api::ResourceAllocation& allocate,
                                   const MetricsSource& source) {
  return [allocate, &source](
             const Report& report, const TrialTable& /*trials*/,
             const ResourceBundles& /*base*/) -> Result<std::optional<ResourceBundles>> {
    try {
      const auto group = allocate(report.trial, source.last_metrics(report.trial));
      if (!group) return std::optional<ResourceBundles>();
      return std::optional<ResourceBundles>(shape_of_group(*group).bundles);
    } catch (const std::exception& error) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("trial {}: allocation: {}", report.trial, error.what()));
    }
  };
}

// The CPUs and GPUs among these amounts, in 1/10000.
Result<ProcessorAmounts> processors_among(const char* option, const Resources& resources) {
  ProcessorAmounts amounts;
  if (resources.empty()) return amounts;
  const GroupShape shape = shape_of_group({{resources}});
  for (const auto& [name, units] : shape.bundles.front()) {
    if (name == "CPU")
      amounts.cpu = units;
    else if (name == "GPU")
      amounts.gpu = units;
    else
      return failure(ErrorCode::invalid_argument,
                     fmt::format("DistributeResources::{}: '{}' cannot be distributed; pass cpu or "
                                 "gpu",
                                 option, name));
  }
  return amounts;
}

ProcessorAmounts processors_of_cluster() {
  auto resources = cluster_resources();
  return {.cpu = std::llround(resources["CPU"] * 10000),
          .gpu = std::llround(resources["GPU"] * 10000)};
}

Result<AllocationFunction> distribution(const api::DistributeResources& rule, Mode mode) {
  DistributionSettings settings{.add_bundles = rule.add_bundles,
                                .increase_by_times = rule.increase_by_times,
                                .to_top_job = rule.to_top_job,
                                .mode = mode};
  auto increase = processors_among("increase_by", rule.increase_by);
  if (!increase) return increase.error();
  settings.increase_by = *increase;
  auto reserve = processors_among("reserve_resources", rule.reserve_resources);
  if (!reserve) return reserve.error();
  settings.reserve = *reserve;
  // A resumed experiment repeats the decisions, so the amounts do not change.
  const ProcessorAmounts total = processors_of_cluster();
  return make_distribution(settings, [total] { return total; });
}

// Wraps the scheduler `base` with the allocation that `make_allocation(plan)` returns.
template <class MakeAllocation>
Result<MadeScheduler> changing(const api::SchedulerPtr& base, const SchedulerPlan& plan,
                               const MakeAllocation& make_allocation) {
  auto made = make_scheduler(base, plan);
  if (!made) return made;
  Result<AllocationFunction> allocation = make_allocation();
  if (!allocation) return allocation.error();
  made->rule = make_resource_changing(std::move(made->rule), std::move(*allocation));
  made->changes_resources = true;
  return made;
}

Value json_value(const nlohmann::json& item) {
  if (item.is_boolean()) return item.get<bool>();
  if (item.is_number_integer()) return item.get<std::int64_t>();
  if (item.is_number()) return item.get<double>();
  if (item.is_string()) return item.get<std::string>();
  return json_text(item);
}

Config json_config(const nlohmann::ordered_json& item) {
  Config config;
  for (const auto& [name, value] : item.items()) config.set(name, json_value(value));
  return config;
}

// Rows [old tag, new tag, old step, new step, old configuration, new configuration].
Result<std::vector<PolicyRow>> read_policy(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return failure(ErrorCode::not_found, fmt::format("read policy {}: cannot open the file", path));
  std::vector<PolicyRow> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty()) continue;
    try {
      const auto row = nlohmann::ordered_json::parse(line);
      auto text = [](const nlohmann::ordered_json& tag) {
        return tag.is_string() ? tag.get<std::string>() : json_text(tag);
      };
      rows.push_back({.recipient = text(row.at(0)),
                      .donor = text(row.at(1)),
                      .recipient_step = row.at(2).get<std::int64_t>(),
                      .donor_step = row.at(3).get<std::int64_t>(),
                      .donor_config = json_config(row.at(4)),
                      .config = json_config(row.at(5))});
    } catch (const std::exception& error) {
      return failure(ErrorCode::corrupt, fmt::format("read policy {}: row {}: {}", path,
                                                     rows.size() + 1, error.what()));
    }
  }
  return rows;
}

}  // namespace

Result<MadeScheduler> make_scheduler(const api::SchedulerPtr& scheduler,
                                     const SchedulerPlan& plan) {
  if (!scheduler) return fifo();
  if (const auto* known = dynamic_cast<const SchedulerRecipe*>(scheduler.get()))
    return known->make(plan);
  MadeScheduler made{.name = "user", .needs_metric = false, .needs_population = true};
  made.rule = std::make_unique<UserScheduler>(scheduler, *plan.metrics);
  return made;
}

}  // namespace mobula::internal::tune

namespace mobula::tune {

using internal::tune::MadeScheduler;
using internal::tune::SchedulerPlan;

SchedulerPtr FIFOScheduler() {
  return internal::tune::recipe([](const SchedulerPlan&) { return internal::tune::fifo(); });
}

SchedulerPtr AsyncHyperBandScheduler(const AsyncHyperBandOptions& options) {
  return internal::tune::recipe([options](const SchedulerPlan& plan) {
    using Settings = internal::tune::SuccessiveHalvingSettings;
    const bool promotes = options.type == AsyncHyperBandOptions::Type::promotion;
    auto made = internal::tune::made_of(
        internal::tune::make_successive_halving(
            {.mode = plan.mode,
             .max_t = options.max_t,
             .grace_period = options.grace_period,
             .reduction_factor = options.reduction_factor,
             .brackets = options.brackets,
             .stop_last_trials = options.stop_last_trials,
             .type = promotes ? Settings::Type::promotion : Settings::Type::stopping}),
        "AsyncHyperBandScheduler", options.time_attr);
    return made;
  });
}

SchedulerPtr ASHAScheduler(const AsyncHyperBandOptions& options) {
  return AsyncHyperBandScheduler(options);
}

SchedulerPtr HyperBandScheduler(const HyperBandOptions& options) {
  return internal::tune::hyperband_recipe(options, false);
}

SchedulerPtr HyperBandForBOHB(const HyperBandOptions& options) {
  return internal::tune::hyperband_recipe(options, true);
}

SchedulerPtr MedianStoppingRule(const MedianStoppingOptions& options) {
  return internal::tune::recipe([options](const SchedulerPlan& plan) {
    return internal::tune::made_of(
        internal::tune::make_median_stopping({.mode = plan.mode,
                                              .grace_period = options.grace_period,
                                              .min_time_slice = options.min_time_slice,
                                              .min_samples_required = options.min_samples_required,
                                              .hard_stop = options.hard_stop}),
        "MedianStoppingRule", options.time_attr);
  });
}

SchedulerPtr PopulationBasedTraining(const PbtOptions& options) {
  return internal::tune::recipe(
      [options](const SchedulerPlan& plan) -> internal::Result<MadeScheduler> {
        internal::tune::PopulationSettings settings{
            .mode = plan.mode,
            .perturbation_interval = options.perturbation_interval,
            .burn_in_period = options.burn_in_period,
            .quantile_fraction = options.quantile_fraction,
            .synch = options.synch};
        settings.explore.mutations = internal::tune::core_space(options.hyperparam_mutations);
        settings.explore.resample_probability = options.resample_probability;
        settings.explore.perturbation_factors = options.perturbation_factors;
        settings.explore.clamp = options.clamp;
        if (options.custom_explore_fn)
          settings.explore.custom =
              [explore = options.custom_explore_fn](const internal::tune::Config& config) {
                return internal::tune::core_config(explore(internal::tune::api_config(config)));
              };
        auto made =
            internal::tune::made_of(internal::tune::make_population_training(std::move(settings)),
                                    "PopulationBasedTraining", options.time_attr);
        if (!made) return made;
        made->mutates = true;
        made->needs_population = true;
        return made;
      });
}

SchedulerPtr PB2(const Pb2Options& options) {
  return internal::tune::recipe(
      [options](const SchedulerPlan& plan) -> internal::Result<MadeScheduler> {
        auto made = internal::tune::made_of(
            internal::tune::make_population_bandit(
                {.mode = plan.mode,
                 .perturbation_interval = options.perturbation_interval,
                 .quantile_fraction = options.quantile_fraction,
                 .synch = options.synch,
                 .bounds = {options.hyperparam_bounds.begin(), options.hyperparam_bounds.end()}}),
            "PB2", options.time_attr);
        if (!made) return made;
        made->mutates = true;
        made->needs_population = true;
        return made;
      });
}

SchedulerPtr PopulationBasedTrainingReplay(const std::string& policy_file) {
  return internal::tune::recipe(
      [policy_file](const SchedulerPlan&) -> internal::Result<MadeScheduler> {
        auto rows = internal::tune::read_policy(policy_file);
        if (!rows) return rows.error();
        MadeScheduler made{.name = "PopulationBasedTrainingReplay", .needs_metric = false};
        made.mutates = true;
        made.rule = internal::tune::make_policy_replay(*rows);
        return made;
      });
}

SchedulerPtr ResourceChangingScheduler(SchedulerPtr base, ResourceAllocation allocation) {
  using Allocation = internal::Result<internal::tune::AllocationFunction>;
  return internal::tune::recipe(
      [base = std::move(base), allocation = std::move(allocation)](const SchedulerPlan& plan) {
        return internal::tune::changing(base, plan, [&]() -> Allocation {
          if (!allocation)
            return internal::failure(internal::ErrorCode::invalid_argument,
                                     "ResourceChangingScheduler: the allocation function is empty");
          return internal::tune::user_allocation(allocation, *plan.metrics);
        });
      });
}

SchedulerPtr ResourceChangingScheduler(SchedulerPtr base, const DistributeResources& rule) {
  return internal::tune::recipe([base = std::move(base), rule](const SchedulerPlan& plan) {
    return internal::tune::changing(base, plan,
                                    [&] { return internal::tune::distribution(rule, plan.mode); });
  });
}

}  // namespace mobula::tune
