#include "tune/runtime/experiment/experiment_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"

namespace mobula::internal::tune {
namespace {

using Json = nlohmann::ordered_json;
using TrialValue = std::pair<double, TrialNumber>;

constexpr std::size_t best_rows = 20, live_rows = 40, failed_rows = 10;
constexpr std::size_t max_points = 300, max_steps = 60;
constexpr std::size_t max_text = 160;

const char* shown_state(TrialState state) {
  switch (state) {
    case TrialState::pending: return "PENDING";
    case TrialState::running:
    case TrialState::pausing: return "RUNNING";
    case TrialState::paused: return "PAUSED";
    case TrialState::terminated: return "TERMINATED";
    case TrialState::failed: return "FAILED";
  }
  return "";
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> finite_value(const TrialRecord& record, const std::string& metric) {
  const Value* value = record.last.find(metric);
  if (value == nullptr || value->is_text() || !std::isfinite(value->number())) return std::nullopt;
  return value->number();
}

// "lr=0.0017, width=77": as many digits as a person reads.
std::string text_of(const Config& config) {
  std::string text;
  for (const auto& [name, value] : config) {
    if (!text.empty()) text += ", ";
    text += name + "=";
    if (value.is_text())
      text += value.text();
    else
      text += value.is_number() ? fmt::format("{:.5g}", value.number()) : to_string(value);
  }
  return text.substr(0, max_text);
}

class Summary {
 public:
  Summary(const ExperimentCore& core, const SummaryContext& context,
          const std::map<TrialNumber, std::string>& nodes)
      : core_(core), context_(context), nodes_(nodes), sign_(sign_of(context.mode)) {}

  std::string text() {
    read_trials();
    Json json = {
        {"name", context_.name},         {"state", context_.finished ? "FINISHED" : "RUNNING"},
        {"metric", context_.metric},     {"mode", context_.mode == Mode::max ? "max" : "min"},
        {"searcher", context_.searcher}, {"scheduler", context_.scheduler},
        {"samples", context_.samples},   {"elapsed_s", context_.elapsed_s},
        {"waiting", context_.waiting},   {"counts", counts()}};
    if (best_) json["best"] = row_of(best_->second);
    json["curve"] = pairs(steps_, max_steps);
    json["points"] = pairs(values_, max_points);
    json["trials"] = rows();
    return json_text(json);
  }

 private:
  void read_trials() {
    for (std::size_t i = 0; i < core_.trials().size(); ++i) {
      const auto trial = static_cast<TrialNumber>(i);
      const TrialState state = core_.shown_state(trial);
      ++counts_[shown_state(state)];
      const auto value = finite(core_.last_value(trial));
      if (!value || state == TrialState::failed) continue;
      values_.emplace_back(*value, trial);
      if (best_ && sign_ * *value <= sign_ * best_->first) continue;
      best_.emplace(*value, trial);
      steps_.push_back(*best_);
    }
  }

  Json counts() const {
    Json counts = Json::object();
    for (const auto& [name, label] : {std::pair{"pending", "PENDING"},
                                      {"running", "RUNNING"},
                                      {"paused", "PAUSED"},
                                      {"terminated", "TERMINATED"},
                                      {"failed", "FAILED"}}) {
      const auto count = counts_.find(label);
      counts[name] = count == counts_.end() ? 0 : count->second;
    }
    return counts;
  }

  // The last `most` of the values, as [trial, value].
  static Json pairs(const std::vector<TrialValue>& values, std::size_t most) {
    Json pairs = Json::array();
    for (std::size_t i = values.size() - std::min(values.size(), most); i < values.size(); ++i)
      pairs.push_back({values[i].second, values[i].first});
    return pairs;
  }

  Json row_of(TrialNumber trial) const {
    const TrialRecord& record = core_.record(trial);
    Json row = {{"trial", trial},
                {"state", shown_state(core_.shown_state(trial))},
                {"iteration", core_.trials().row(trial).iteration}};
    if (const auto value = finite(core_.last_value(trial))) row["value"] = *value;
    if (const auto seconds = finite_value(record, "time_total_s")) row["seconds"] = *seconds;
    if (const auto node = nodes_.find(trial); node != nodes_.end()) row["node"] = node->second;
    row["config"] = text_of(record.config);
    if (core_.trials().state(trial) == TrialState::failed)
      row["error"] = record.error.substr(0, max_text);
    return row;
  }

  Json rows() {
    std::set<TrialNumber> chosen;
    const std::size_t best = std::min(values_.size(), best_rows);
    std::partial_sort(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(best),
                      values_.end(), [&](const TrialValue& a, const TrialValue& b) {
                        return std::pair(-sign_ * a.first, a.second) <
                               std::pair(-sign_ * b.first, b.second);
                      });
    for (std::size_t i = 0; i < best; ++i) chosen.insert(values_[i].second);
    std::size_t live = live_rows, failed = failed_rows;
    for (auto trial = static_cast<TrialNumber>(core_.trials().size()); trial-- > 0;) {
      const TrialState state = core_.trials().state(trial);
      if (state == TrialState::terminated) continue;
      std::size_t& left = state == TrialState::failed ? failed : live;
      if (left > 0 && chosen.insert(trial).second) --left;
      if (live == 0 && failed == 0) break;
    }
    Json rows = Json::array();
    for (const TrialNumber trial : chosen) rows.push_back(row_of(trial));
    return rows;
  }

  const ExperimentCore& core_;
  const SummaryContext& context_;
  const std::map<TrialNumber, std::string>& nodes_;
  const double sign_;  // factor that makes larger scores better
  std::map<std::string, std::int64_t> counts_;
  std::vector<TrialValue> values_, steps_;
  std::optional<TrialValue> best_;
};

}  // namespace

std::string experiment_summary(const ExperimentCore& core, const SummaryContext& context,
                               const std::map<TrialNumber, std::string>& nodes) {
  return Summary(core, context, nodes).text();
}

}  // namespace mobula::internal::tune
