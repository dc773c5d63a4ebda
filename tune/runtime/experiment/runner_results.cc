// Callbacks, progress, and results of an experiment.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>

#include <mobula/cluster.h>
#include <mobula/errors.h>

#include "base/logging/stderr_queue.h"
#include "tune/api/core_values.h"
#include "tune/runtime/experiment/experiment_runner.h"
#include "tune/runtime/experiment/experiment_summary.h"
#include "tune/runtime/stored_results.h"

namespace mobula::tune {

Callback::~Callback() = default;

}  // namespace mobula::tune

namespace mobula::internal::tune {
namespace {

constexpr std::chrono::seconds report_interval(2);
constexpr std::size_t most_reasons = 3;

void call_each(const std::vector<api::CallbackPtr>& callbacks, const char* name,
               const std::function<void(api::Callback&)>& call) {
  for (const api::CallbackPtr& callback : callbacks) {
    try {
      call(*callback);
    } catch (const std::exception& error) {
      print_stderr("tune: callback {}: {}", name, error.what());
    }
  }
}

}  // namespace

void ExperimentRunner::notify_report(const TrialReported& report) {
  if (options_.verbose >= 2)
    print_stderr("tune: trial {}: {}", report.trial, to_string(report.metrics));
  if (options_.callbacks.empty()) return;
  const api::Metrics metrics = api_metrics(report.metrics);
  call_each(options_.callbacks, "on_trial_result",
            [&](api::Callback& each) { each.on_trial_result(report.trial, metrics); });
}

void ExperimentRunner::notify(const HeldCommand& held) {
  const ExperimentCommand& command = held.command;
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
    if (held.state == TrialState::failed) {
      if (options_.verbose >= 1) print_stderr("tune: {}", held.error);
      call_each(options_.callbacks, "on_trial_error",
                [&](api::Callback& each) { each.on_trial_error(changed->trial, held.error); });
    } else if (held.state == TrialState::terminated) {
      call_each(options_.callbacks, "on_trial_complete",
                [&](api::Callback& each) { each.on_trial_complete(changed->trial, held.last); });
    }
  }
}

void ExperimentRunner::show(bool last) {
  const double now = now_s();
  if (options_.verbose < 1 || (!last && !table_.is_due(now))) return;
  table_.show(core_,
              {.elapsed_s = now,
               .waiting = waiting_reason(),
               .resources = resources_in_use(),
               .nodes = &recorder_.nodes()},
              last);
}

// "4 CPU, 1 GPU": the bundles of the trials that run.
std::string ExperimentRunner::resources_in_use() const {
  std::map<std::string, double> used;
  for (const auto& [number, row] : groups_) {
    if (row.trial < 0 || row.finished) continue;
    for (const Resources& bundle : row.resources.bundles)
      for (const auto& [name, amount] : bundle) used[name] += amount.value();
  }
  std::string text;
  for (const auto& [name, amount] : used) {
    const bool bytes = name == "memory" || name == "gpu_memory";
    text +=
        (text.empty() ? "" : ", ") + (bytes ? fmt::format("{:.0f} MiB {}", amount / (1 << 20), name)
                                            : fmt::format("{:g} {}", amount, name));
  }
  return text;
}

// The reason for an end before all samples have run; empty: none.
std::string ExperimentRunner::end_reason() const {
  if (!core_.search_error().empty()) return core_.search_error();
  if (!core_.stop_reason().empty())
    return fmt::format("{} after {} of {} samples", core_.stop_reason(), core_.trials().size(),
                       options_.num_samples);
  if (!core_.search_ended_early()) return {};
  return fmt::format("the search algorithm finished after {} of {} samples", core_.trials().size(),
                     options_.num_samples);
}

// Reports at most every 2 s, and so that the summaries take at most a fiftieth of the time.
void ExperimentRunner::report_progress(bool last) {
  const auto began = Clock::now();
  if (!last && began < next_report_) return;
  reporter_.publish(experiment_summary(core_,
                                       {.name = parts_.location.name,
                                        .metric = options_.metric,
                                        .mode = core_mode(options_.mode),
                                        .searcher = parts_.searcher,
                                        .scheduler = parts_.scheduler,
                                        .samples = options_.num_samples,
                                        .elapsed_s = now_s(),
                                        .waiting = last ? std::string() : waiting_reason(),
                                        .finished = last},
                                       recorder_.nodes()));
  const auto now = Clock::now();
  next_report_ = std::max(began + report_interval, now + 50 * (now - began));
}

// The reasons why trials wait, as the cluster reports them.
std::string ExperimentRunner::waiting_reason() {
  if (const std::string problem = parts_.log->problem(); !problem.empty()) return problem;
  if (core_.ended()) return reason_;
  if (!core_.waits_for_group()) {
    const std::int64_t limit = core_.full_limit();
    reason_ = limit == 0 ? std::string()
                         : fmt::format("max_concurrent_trials is {}, and {} trials have groups",
                                       limit, core_.running());
    return reason_;
  }
  // The head answers a query, so it is asked only if a group waits, and at most every 5 s.
  const auto now = Clock::now();
  if (now - reason_at_ < std::chrono::seconds(5)) return reason_;
  reason_at_ = now;
  reason_.clear();
  std::map<std::string, std::string> waiting;  // the first group, by reason
  const std::string prefix = fmt::format("tune/{}/", parts_.location.name);
  std::vector<PlacementGroupInfo> groups;
  try {
    groups = placement_group_table();
  } catch (const ConnectionError& error) {
    // A head that is away or busy delays the trials, and ends no experiment.
    return reason_ = fmt::format("groups of trials: reason unknown: {}", error.what());
  }
  for (const PlacementGroupInfo& group : groups) {
    if (!group.name.starts_with(prefix) || group.state != "PENDING" || group.reason.empty())
      continue;
    if (waiting.size() == most_reasons) break;
    const auto trial = core_.trial_of_group(std::atoll(group.name.c_str() + prefix.size()));
    waiting.try_emplace(group.reason,
                        trial ? fmt::format("trial {}: {}", *trial, group.name) : group.name);
  }
  for (const auto& [reason, group] : waiting)
    reason_ += fmt::format("{}{}: {}", reason_.empty() ? "" : "; ", group, reason);
  return reason_;
}

// For `mobula tune status` and `explain`, which read the file alone.
void ExperimentRunner::store_waiting_reason() {
  const std::string reason = waiting_reason();
  if (core_.ended() || reason == stored_reason_) return;
  stored_reason_ = reason;
  parts_.log->add(SetExperimentState{.state = "running", .reason = reason});
}

// For `mobula tune explain` and `show`. A short attempt costs no row and no call: its end has both.
void ExperimentRunner::store_processes() {
  for (auto& [number, row] : groups_) {
    if (!row.handle || row.exited || row.ending || row.placed) continue;
    if (row.process == 0) {
      row.identify = !std::exchange(row.identifies, true);
      continue;
    }
    row.placed = true;
    parts_.log->add(SetTrialProcess{row.trial, row.attempt, row.node, row.process});
  }
}

api::ResultGrid ExperimentRunner::results() const {
  std::vector<api::Objective> objectives = options_.objectives;
  if (objectives.empty() && !options_.metric.empty())
    objectives.push_back({options_.metric, options_.mode});
  auto source = stored_results(parts_.location, core_.trials().size());
  if (!source) throw Error("tune: " + source.error().text);
  return {std::move(*source), std::move(objectives), options_.constraints};
}

}  // namespace mobula::internal::tune
