// Callbacks, progress, and results of an experiment.
#include <fmt/format.h>

#include <exception>
#include <functional>

#include <mobula/cluster.h>
#include <mobula/errors.h>

#include "tune/api/core_values.h"
#include "tune/runtime/experiment_runner.h"
#include "tune/runtime/experiment_summary.h"

namespace mobula::tune {

Callback::~Callback() = default;

const TrialResult& ResultGrid::best() const {
  const TrialResult* best = nullptr;
  double best_value = 0;
  for (const TrialResult& result : results_) {
    const auto found = result.metrics.find(metric_);
    if (found == result.metrics.end() || !result.error.empty()) continue;
    if (std::holds_alternative<std::string>(found->second.data())) continue;
    const double value = internal::tune::core_value(found->second).number();
    if (value != value) continue;
    const bool better = mode_ == Mode::max ? value > best_value : value < best_value;
    if (best != nullptr && !better) continue;
    best = &result;
    best_value = value;
  }
  if (best == nullptr)
    throw NotFoundError(fmt::format("ResultGrid::best: no trial of {} has the metric '{}'",
                                    results_.size(), metric_));
  return *best;
}

}  // namespace mobula::tune

namespace mobula::internal::tune {
namespace {

constexpr std::chrono::seconds report_interval(2);

void call_each(const std::vector<api::CallbackPtr>& callbacks, const char* name,
               const std::function<void(api::Callback&)>& call) {
  for (const api::CallbackPtr& callback : callbacks) {
    try {
      call(*callback);
    } catch (const std::exception& error) {
      fmt::print(stderr, "tune: callback {}: {}\n", name, error.what());
    }
  }
}

}  // namespace

void ExperimentRunner::notify_report(const TrialReported& report) {
  if (options_.verbose >= 2)
    fmt::print(stderr, "tune: trial {}: {}\n", report.trial, to_string(report.metrics));
  if (options_.callbacks.empty()) return;
  const api::Metrics metrics = api_metrics(report.metrics);
  call_each(options_.callbacks, "on_trial_result",
            [&](api::Callback& each) { each.on_trial_result(report.trial, metrics); });
}

void ExperimentRunner::notify(const ExperimentCommand& command) {
  if (const auto* started = std::get_if<StartTrial>(&command)) {
    const api::Config config = api_config(started->config);
    call_each(options_.callbacks, "on_trial_start",
              [&](api::Callback& each) { each.on_trial_start(started->trial, config); });
  } else if (const auto* added = std::get_if<CheckpointAdded>(&command)) {
    const CheckpointRow* row = core_.checkpoint(added->checkpoint);
    if (row == nullptr) return;
    call_each(options_.callbacks, "on_checkpoint",
              [&](api::Callback& each) { each.on_checkpoint(row->trial, row->directory); });
  } else if (const auto* changed = std::get_if<TrialChanged>(&command)) {
    const TrialRecord& record = core_.record(changed->trial);
    if (core_.trials().state(changed->trial) == TrialState::failed) {
      if (options_.verbose >= 1) fmt::print(stderr, "tune: {}\n", record.error);
      call_each(options_.callbacks, "on_trial_error",
                [&](api::Callback& each) { each.on_trial_error(changed->trial, record.error); });
    } else if (core_.trials().state(changed->trial) == TrialState::terminated) {
      const api::Metrics last = api_metrics(record.last);
      call_each(options_.callbacks, "on_trial_complete",
                [&](api::Callback& each) { each.on_trial_complete(changed->trial, last); });
    }
  }
}

void ExperimentRunner::show(bool last) {
  if (options_.verbose < 1) return;
  table_.show(core_, now_s(), waiting_reason(), last);
}

// Reports at most every 2 s, and so that the summaries take at most a fiftieth of the time.
void ExperimentRunner::report_progress(bool last) {
  const auto began = Clock::now();
  if (!last && began < next_report_) return;
  reporter_.publish(experiment_summary(core_,
                                       {.name = parts_.place.name,
                                        .metric = options_.metric,
                                        .mode = core_mode(options_.mode),
                                        .searcher = parts_.searcher,
                                        .scheduler = parts_.scheduler,
                                        .samples = options_.num_samples,
                                        .elapsed_s = now_s(),
                                        .waiting = last ? std::string() : waiting_reason(),
                                        .finished = last},
                                       node_of_));
  const auto now = Clock::now();
  next_report_ = std::max(began + report_interval, now + 50 * (now - began));
}

// The reason why the next trial waits, as the cluster reports it.
std::string ExperimentRunner::waiting_reason() {
  if (const std::string problem = parts_.log->problem(); !problem.empty()) return problem;
  // The head answers a query, so it is asked only if nothing has happened for a while.
  const auto now = Clock::now();
  if (core_.ended() || now - reason_at_ < std::chrono::seconds(5)) return reason_;
  reason_at_ = now;
  reason_.clear();
  if (core_.running() > 0) return reason_;
  const std::string prefix = fmt::format("tune/{}/", parts_.place.name);
  for (const PlacementGroupInfo& group : placement_group_table()) {
    if (!group.name.starts_with(prefix) || group.state != "PENDING") continue;
    reason_ = group.name + ": " + group.reason;
    break;
  }
  return reason_;
}

api::ResultGrid ExperimentRunner::results() const {
  std::vector<api::TrialResult> results;
  for (std::size_t i = 0; i < core_.trials().size(); ++i) {
    const auto trial = static_cast<TrialNumber>(i);
    const TrialRecord& record = core_.record(trial);
    api::TrialResult result{.trial = trial,
                            .config = api_config(record.config),
                            .metrics = api_metrics(record.last),
                            .warnings = record.warnings,
                            .attempts = static_cast<int>(record.attempt),
                            .checkpoint = record.checkpoint};
    if (core_.trials().state(trial) == TrialState::failed) result.error = record.error;
    results.push_back(std::move(result));
  }
  return {std::move(results), options_.metric, options_.mode};
}

}  // namespace mobula::internal::tune
