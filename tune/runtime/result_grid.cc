// The results of an experiment: the best trial and the Pareto front.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include <mobula/errors.h>
#include <mobula/tune/run.h>

#include "tune/api/core_values.h"
#include "tune/runtime/stored_results.h"

namespace mobula::tune {
namespace {

// NaN: the last report has no such number.
double last_number(const TrialResult& result, const std::string& metric) {
  const auto found = result.metrics.find(metric);
  if (found == result.metrics.end() || std::holds_alternative<std::string>(found->second.data()))
    return std::numeric_limits<double>::quiet_NaN();
  return internal::tune::core_value(found->second).number();
}

// Smaller is better.
double loss_of(const TrialResult& result, const Objective& objective) {
  const double value = last_number(result, objective.metric);
  return objective.mode == Mode::max ? -value : value;
}

bool dominates(const TrialResult& a, const TrialResult& b,
               const std::vector<Objective>& objectives) {
  bool better = false;
  for (const Objective& objective : objectives) {
    const double own = loss_of(a, objective);
    const double other = loss_of(b, objective);
    if (own > other) return false;
    better = better || own < other;
  }
  return better;
}

}  // namespace

ResultGrid::ResultGrid(std::vector<TrialResult> results, std::vector<Objective> objectives,
                       std::vector<std::string> constraints)
    : ResultGrid(internal::tune::results_in_memory(std::move(results)), std::move(objectives),
                 std::move(constraints)) {}

ResultGrid::ResultGrid(std::shared_ptr<const detail::ResultSource> source,
                       std::vector<Objective> objectives, std::vector<std::string> constraints)
    : source_(std::move(source)),
      objectives_(std::move(objectives)),
      constraints_(std::move(constraints)) {}

std::size_t ResultGrid::size() const { return source_->size(); }

void ResultGrid::each(const std::function<void(const TrialResult&)>& visit) const {
  source_->each([&](TrialResult&& result) { visit(result); });
}

std::span<const TrialResult> ResultGrid::all() const {
  if (!all_) {
    auto results = std::make_shared<std::vector<TrialResult>>();
    results->reserve(size());
    source_->each([&](TrialResult&& result) { results->push_back(std::move(result)); });
    all_ = std::move(results);
  }
  return *all_;
}

bool ResultGrid::valid(const TrialResult& result) const {
  bool has_all = result.error.empty();
  for (const Objective& objective : objectives_)
    has_all = has_all && !std::isnan(last_number(result, objective.metric));
  for (const std::string& constraint : constraints_)
    has_all = has_all && last_number(result, constraint) <= 0;
  return has_all;
}

const TrialResult& ResultGrid::best() const {
  if (objectives_.size() > 1)
    internal::tune::refuse_tune("ResultGrid::best", fmt::format("the experiment has {} objectives; "
                                                                "call front",
                                                                objectives_.size()));
  if (best_) return *best_;
  const std::string metric = objectives_.empty() ? "" : objectives_.front().metric;
  if (metric.empty())
    internal::tune::refuse_tune("ResultGrid::best", "RunOptions::metric is empty; pass the metric");
  std::shared_ptr<TrialResult> best;
  if (!metric.empty())
    source_->each([&](TrialResult&& result) {
      if (valid(result) && (!best || dominates(result, *best, objectives_)))
        best = std::make_shared<TrialResult>(std::move(result));
    });
  if (!best)
    throw NotFoundError(fmt::format("ResultGrid::best: no trial of {} has the metric '{}'{}",
                                    size(), metric,
                                    constraints_.empty() ? "" : " and satisfies the constraints"));
  best_ = std::move(best);
  return *best_;
}

std::vector<TrialResult> ResultGrid::front() const {
  std::vector<TrialResult> front;
  source_->each([&](TrialResult&& result) {
    if (!valid(result)) return;
    for (const TrialResult& each : front)
      if (dominates(each, result, objectives_)) return;
    std::erase_if(front,
                  [&](const TrialResult& each) { return dominates(result, each, objectives_); });
    front.push_back(std::move(result));
  });
  return front;
}

}  // namespace mobula::tune
