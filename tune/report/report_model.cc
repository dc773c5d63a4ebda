#include "tune/report/report_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tune/report/parameter_importance.h"

namespace mobula::internal::tune {
namespace {

constexpr std::size_t most_best = 10;
constexpr std::size_t most_history = 300;
constexpr std::size_t most_lines = 160;
constexpr std::size_t most_slice_points = 1800;  // over all slices
constexpr std::size_t most_curves = 60;
constexpr std::size_t most_curve_points = 40;
constexpr std::size_t most_attempts = 160;
constexpr std::size_t most_bars = 40;
constexpr std::size_t most_importance_trials = 5000;

// About `count` elements at equal distances.
template <class T>
std::vector<T> thinned(const std::vector<T>& all, std::size_t count) {
  if (all.size() <= count) return all;
  std::vector<T> few;
  for (std::size_t i = 0; i < count; ++i) few.push_back(all[i * all.size() / count]);
  return few;
}

// All trials with a value, in the order of numbers.
std::vector<ReportTrial> valued_trials(std::vector<StoredTrial> trials, double sign) {
  std::vector<ReportTrial> valued;
  double best = -INFINITY;
  for (auto& trial : trials) {
    if (!trial.best || !std::isfinite(*trial.best)) continue;
    const double score = sign * *trial.best;
    valued.push_back({.trial = trial.trial,
                      .value = *trial.best,
                      .improved = score > best,
                      .config = std::move(trial.config)});
    best = std::max(best, score);
  }
  return valued;
}

// Best first; sets the standing of both orders.
std::vector<ReportTrial> ranked(std::vector<ReportTrial>& trials, double sign) {
  std::vector<std::size_t> order(trials.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return sign * trials[a].value > sign * trials[b].value;
  });
  std::vector<ReportTrial> by_value;
  by_value.reserve(trials.size());
  const double last = std::max<double>(1, static_cast<double>(trials.size()) - 1);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    trials[order[rank]].standing = 1 - static_cast<double>(rank) / last;
    by_value.push_back(trials[order[rank]]);
  }
  return by_value;
}

// The names of all parameters that have at least two values.
std::vector<std::string> varied_parameters(const std::vector<ReportTrial>& trials) {
  struct Seen {
    Value first = {};
    bool varies = false;
  };
  std::map<std::string, Seen> seen;
  std::vector<std::string> order;
  for (const auto& trial : trials) {
    for (const auto& [name, value] : trial.config) {
      const auto [at, added] = seen.try_emplace(name, Seen{value, false});
      if (added) order.push_back(name);
      if (!added && !(at->second.first == value)) at->second.varies = true;
    }
  }
  std::erase_if(order, [&](const std::string& name) { return !seen[name].varies; });
  return order;
}

std::vector<ReportTrial> history_of(const std::vector<ReportTrial>& trials) {
  std::vector<ReportTrial> history;
  const std::size_t stride = trials.size() / most_history + 1;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].improved || i % stride == 0 || i + 1 == trials.size()) {
      history.push_back(trials[i]);
      history.back().config = {};
    }
  }
  return history;
}

// Half of the sample are the best trials, so that their pattern is visible.
std::vector<ReportTrial> line_sample(const std::vector<ReportTrial>& by_value) {
  if (by_value.size() <= most_lines) return by_value;
  std::vector<ReportTrial> sample(by_value.begin(), by_value.begin() + most_lines / 4);
  const std::vector<ReportTrial> rest(by_value.begin() + most_lines / 4, by_value.end());
  const auto few = thinned(rest, most_lines - sample.size());
  sample.insert(sample.end(), few.begin(), few.end());
  return sample;
}

std::vector<ReportCurve> curves_of(const std::vector<MetricPoint>& points,
                                   const std::vector<ReportTrial>& by_value) {
  std::map<TrialNumber, double> chosen;
  for (std::size_t i = 0; i < std::min(by_value.size(), most_curves / 3); ++i) {
    chosen[by_value[i].trial] = by_value[i].standing;
  }
  for (const auto& each : thinned(by_value, most_curves - chosen.size())) {
    chosen[each.trial] = each.standing;
  }
  std::map<TrialNumber, std::map<std::int64_t, double>> steps;  // the last attempt wins
  for (const auto& point : points) {
    if (chosen.contains(point.trial)) steps[point.trial][point.step] = point.value;
  }
  std::vector<ReportCurve> curves;
  for (const auto& [trial, values] : steps) {
    if (values.size() < 2) continue;
    std::vector<std::pair<double, double>> line;
    for (const auto& [step, value] : values) line.emplace_back(static_cast<double>(step), value);
    const auto last = line.back();
    line = thinned(line, most_curve_points);
    if (line.back() != last) line.push_back(last);
    curves.push_back({trial, chosen[trial], std::move(line)});
  }
  std::stable_sort(curves.begin(), curves.end(),
                   [](const auto& a, const auto& b) { return a.standing < b.standing; });
  return curves;
}

std::vector<std::pair<std::int64_t, std::int64_t>> survivors_of(
    const std::vector<std::int64_t>& last_steps) {
  std::vector<std::int64_t> ends = last_steps;
  std::sort(ends.begin(), ends.end());
  std::set<std::int64_t> steps(ends.begin(), ends.end());
  std::vector<std::int64_t> shown = thinned(std::vector(steps.begin(), steps.end()), most_bars);
  std::vector<std::pair<std::int64_t, std::int64_t>> survivors;
  for (const std::int64_t step : shown) {
    if (step <= 0) continue;
    survivors.emplace_back(step, ends.end() - std::lower_bound(ends.begin(), ends.end(), step));
  }
  return survivors;
}

void sort_parameters(ReportModel& model) {
  if (model.importances.empty()) return;
  model.parameters.clear();
  for (const auto& each : model.importances) model.parameters.push_back(each.parameter);
}

Result<void> add_attempts(ExperimentReader& reader, ReportModel& model) {
  auto attempts = reader.attempts();
  if (!attempts) return attempts.error();
  model.attempt_count = static_cast<std::int64_t>(attempts->size());
  std::stable_sort(attempts->begin(), attempts->end(),
                   [](const auto& a, const auto& b) { return a.began_ms < b.began_ms; });
  const std::size_t skipped = attempts->size() - std::min(attempts->size(), most_attempts);
  model.attempts.assign(attempts->begin() + static_cast<std::ptrdiff_t>(skipped), attempts->end());
  return {};
}

}  // namespace

Result<ReportModel> report_model_of(ExperimentReader& reader, const std::string& state) {
  ReportModel model;
  model.state = state;
  auto experiment = reader.experiment();
  if (!experiment) return experiment.error();
  model.experiment = std::move(*experiment);
  auto counts = reader.counts();
  if (!counts) return counts.error();
  model.counts = std::move(*counts);
  for (const auto& each : model.counts) model.trial_count += each.count;
  auto trials = reader.trials();
  if (!trials) return trials.error();
  std::vector<std::int64_t> last_steps;
  std::int64_t end = model.experiment.created_ms;
  for (const auto& trial : *trials) {
    last_steps.push_back(trial.last_step);
    end = std::max({end, trial.ended_ms, trial.created_ms});
  }
  model.elapsed_ms = end - model.experiment.created_ms;
  model.survivors = survivors_of(last_steps);

  const double sign = sign_of(model.experiment.mode);
  auto valued = valued_trials(std::move(*trials), sign);
  const auto by_value = ranked(valued, sign);
  model.valued_count = static_cast<std::int64_t>(valued.size());
  model.best.assign(by_value.begin(), by_value.begin() + static_cast<std::ptrdiff_t>(
                                                             std::min(by_value.size(), most_best)));
  model.history = history_of(valued);
  model.parameters = varied_parameters(thinned(by_value, most_importance_trials));
  model.importances = importances_of(thinned(by_value, most_importance_trials), model.parameters);
  sort_parameters(model);
  model.sample = line_sample(by_value);
  model.slices = thinned(
      by_value, most_slice_points /
                    std::max<std::size_t>(1, std::min<std::size_t>(model.parameters.size(), 12)));
  const auto points = reader.points(model.experiment.metric);
  if (!points) return points.error();
  model.curves = curves_of(*points, by_value);
  if (auto added = add_attempts(reader, model); !added) return added.error();
  return model;
}

}  // namespace mobula::internal::tune
