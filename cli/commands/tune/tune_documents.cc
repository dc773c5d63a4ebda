#include "cli/commands/tune/tune_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/time.h"
#include "cli/commands/tune/tune_decisions.h"
#include "tune/store/config_json.h"
#include "tune/store/experiment_lock.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;
using tune::ExperimentLocation;
using tune::ExperimentReader;
using tune::StoredTrial;
using tune::TrialNumber;
using tune::TrialState;

Json json_of(const tune::Value& value) {
  if (value.is_truth()) return value.truth();
  if (value.is_integer()) return value.integer();
  if (value.is_text()) return value.text();
  if (std::isfinite(value.number())) return value.number();
  return fmt::format("{}", value.number());
}

Json json_of(const std::optional<double>& number) {
  return number ? json_of(tune::Value(*number)) : Json(nullptr);
}

Json document(const char* kind) { return {{"apiVersion", "mobula/v1"}, {"kind", kind}}; }

Json params_of(const tune::Config& config) {
  Json params = Json::object();
  for (const auto& [name, value] : config) params[name] = json_of(value);
  return params;
}

// Clocks jump: a negative span is no span.
Json span_ms(std::int64_t begin, std::int64_t end) {
  if (begin <= 0) return nullptr;
  return std::max<std::int64_t>(0, (end > 0 ? end : wall_clock_ms()) - begin);
}

Json trial_item(const StoredTrial& trial) {
  Json item = {{"trial", trial.trial},
               {"state", tune::state_name(trial.state)},
               {"params", params_of(trial.config)},
               {"best", json_of(trial.best)},
               {"last", json_of(trial.last)},
               {"iterations", trial.last_step},
               {"attempts", trial.attempts},
               {"node", trial.node},
               {"time_ms", span_ms(trial.created_ms, trial.ended_ms)},
               {"bracket", trial.bracket},
               {"seed", trial.seed}};
  if (trial.parent) item["parent"] = *trial.parent;
  if (!trial.error_kind.empty()) item["error_kind"] = trial.error_kind;
  if (!trial.error.empty()) item["error"] = trial.error;
  return item;
}

Json trial_items(const std::vector<StoredTrial>& trials) {
  Json items = Json::array();
  for (const auto& trial : trials) items.push_back(trial_item(trial));
  return items;
}

// The state of the row, or "interrupted" if its controller has exited without an end.
std::string state_of(const tune::StoredExperiment& experiment, const std::string& controller) {
  return experiment.state == "running" && controller.empty() ? "interrupted" : experiment.state;
}

Result<Json> summary_of(ExperimentReader& reader, const ExperimentLocation& location) {
  const auto experiment = reader.experiment();
  if (!experiment) return experiment.error();
  const auto counts = reader.counts();
  if (!counts) return counts.error();
  const auto best = reader.best(1);
  if (!best) return best.error();
  const std::string controller = tune::ExperimentLock::holder(location.lock_file());
  std::int64_t total = 0;
  Json by_state = Json::object();
  for (const auto& [state, count] : *counts) {
    total += count;
    by_state[std::string(tune::state_name(state))] = count;
  }
  const std::string state = state_of(*experiment, controller);
  return Json{{"name", location.name},
              {"state", state},
              {"reason", experiment->end_reason},
              {"trials", total},
              {"by_state", std::move(by_state)},
              {"metric", experiment->metric},
              {"mode", experiment->mode == tune::Mode::max ? "max" : "min"},
              {"best", best->empty() ? Json(nullptr) : json_of(best->front().best)},
              {"best_trial", best->empty() ? Json(nullptr) : Json(best->front().trial)},
              {"best_params", best->empty() ? Json::object() : params_of(best->front().config)},
              {"age_ms", span_ms(experiment->created_ms, 0)},
              {"seed", experiment->seed},
              {"controller", controller},
              {"file", location.file()}};
}

Json metrics_of(const tune::StoredMetrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = json_of(value);
  return json;
}

Json attempt_items(const std::vector<tune::StoredAttempt>& attempts) {
  Json items = Json::array();
  for (const auto& each : attempts) {
    items.push_back({{"attempt", each.number},
                     {"state", each.kind.empty() ? "running" : each.kind},
                     {"node", each.node},
                     {"pid", each.pid},
                     {"time_ms", span_ms(each.began_ms, each.ended_ms)},
                     {"reason", each.text}});
  }
  return items;
}

Json report_items(const std::vector<tune::StoredReport>& reports) {
  Json items = Json::array();
  for (const auto& each : reports) {
    items.push_back({{"attempt", each.attempt},
                     {"iteration", each.step},
                     {"metrics", metrics_of(each.metrics)},
                     {"time_ms", each.time_ms}});
  }
  return items;
}

Json checkpoint_items(const std::vector<tune::StoredCheckpoint>& checkpoints) {
  Json items = Json::array();
  for (const auto& each : checkpoints) {
    items.push_back({{"checkpoint", each.number},
                     {"state", each.state},
                     {"iteration", each.step},
                     {"size_bytes", each.bytes},
                     {"score", json_of(each.score)},
                     {"refs", each.refs},
                     {"directory", each.directory}});
  }
  return items;
}

// ---- explain

struct Standing {
  std::int64_t step = 0;
  double value = 0;
  std::size_t rank = 1;
  std::size_t total = 1;
  Json better = Json::array();  // at most five trials
};

// The rank of the trial's last value among the values of all trials at the same step.
Result<std::optional<Standing>> standing_of(ExperimentReader& reader, const StoredTrial& trial) {
  const auto experiment = reader.experiment();
  if (!experiment) return experiment.error();
  auto points = reader.points(experiment->metric);
  if (!points) return points.error();
  const auto own = std::find_if(points->rbegin(), points->rend(),
                                [&](const auto& each) { return each.trial == trial.trial; });
  if (own == points->rend()) return std::optional<Standing>();
  Standing standing{.step = own->step, .value = own->value};
  const double sign = tune::sign_of(experiment->mode);
  std::vector<std::pair<double, TrialNumber>> better;
  for (const auto& each : *points) {
    if (each.step != standing.step || each.trial == trial.trial) continue;
    ++standing.total;
    if (sign * each.value > sign * standing.value) {
      better.emplace_back(-sign * each.value, each.trial);
    }
  }
  standing.rank += better.size();
  std::sort(better.begin(), better.end());
  constexpr std::size_t most_named = 5;
  for (std::size_t i = 0; i < std::min(better.size(), most_named); ++i) {
    standing.better.push_back({{"trial", better[i].second}, {"value", -sign * better[i].first}});
  }
  return std::optional(std::move(standing));
}

// Reason for the wait of a trial that has no process.
std::string pending_reason(const StoredTrial& trial, const std::string& waiting) {
  if (waiting.starts_with("max_concurrent_trials")) return "waits: " + waiting;
  if (!waiting.empty()) return "waits for a placement group: " + waiting;
  return trial.error.empty() ? "waits for a placement group with its resources"
                             : "waits: " + trial.error;
}

// An attempt has no node until its process has answered.
std::string running_reason(const StoredTrial& trial,
                           const std::vector<tune::StoredAttempt>& attempts) {
  const std::string& node = attempts.empty() ? trial.node : attempts.back().node;
  return node.empty() ? "its process starts, or started less than 2 s ago" : "runs on node " + node;
}

// Reason for the end of a trial without an error.
std::string end_reason(const std::vector<tune::StoredAttempt>& attempts,
                       const std::vector<tune::StoredDecision>& decisions,
                       const std::string& metric) {
  using Outcome = tune::DecisionNote::Outcome;
  const tune::StoredDecision* decision = decisions.empty() ? nullptr : &decisions.back();
  const std::string decided = decision == nullptr ? "" : decision_text(*decision, metric);
  if (decision != nullptr && decision->note.outcome == Outcome::stopped) {
    // A trial that waited until the experiment ended: it was not good enough to continue.
    const bool waited = decisions.size() > 1 &&
                        decision->note.rule == tune::DecisionNote::Rule::experiment &&
                        decisions.rbegin()[1].note.outcome == Outcome::paused;
    return waited ? decided + "; before: " + decision_text(decisions.rbegin()[1], metric) : decided;
  }
  if (attempts.empty()) return "ended before its first attempt";
  const tune::StoredAttempt& last = attempts.back();
  if (last.kind != "stopped") return last.kind + (last.text.empty() ? "" : ": " + last.text);
  if (decision != nullptr && decision->note.outcome == Outcome::paused)
    return "stopped while it was paused; " + decided;
  return "stopped: " + (last.text.empty() ? "by the scheduler" : last.text);
}

std::string reason_of(const StoredTrial& trial, const std::vector<tune::StoredAttempt>& attempts,
                      const std::vector<tune::StoredDecision>& decisions,
                      const tune::StoredExperiment& experiment, const std::string& controller) {
  if (trial.state == TrialState::terminated)
    return end_reason(attempts, decisions, experiment.metric);
  const std::string decided =
      decisions.empty() ? "" : decision_text(decisions.back(), experiment.metric);
  if (trial.state == TrialState::failed) {
    const std::string when = trial.attempts == 0 ? "before its first attempt"
                                                 : fmt::format("after {} attempt{}", trial.attempts,
                                                               trial.attempts == 1 ? "" : "s");
    return fmt::format("failed {}: {}: {}", when, trial.error_kind, trial.error);
  }
  std::string reason;
  switch (trial.state) {
    case TrialState::running: reason = running_reason(trial, attempts); break;
    case TrialState::pausing: reason = "saves a checkpoint because the scheduler paused it"; break;
    case TrialState::paused:
      reason = decided.empty() ? "waits because the scheduler paused it" : decided;
      break;
    default: reason = pending_reason(trial, experiment.end_reason);
  }
  // The state of the file is that of an earlier process.
  if (!controller.empty()) return reason;
  const std::string interrupted = "waits: no process runs the experiment; resume it";
  if (trial.state == TrialState::pending) return interrupted;
  return experiment.state == "running" ? interrupted + "; before: " + reason : reason;
}

}  // namespace

Json experiments_document(const std::string& storage) {
  Json list = document("ExperimentList");
  list["items"] = Json::array();
  for (const auto& name : tune::experiment_names(storage)) {
    const ExperimentLocation location{storage, name};
    auto reader = ExperimentReader::open(location);
    auto summary = reader ? summary_of(*reader, location) : Result<Json>(reader.error());
    if (!summary) {
      summary = Json{{"name", name}, {"state", "unreadable"}, {"reason", summary.error().text}};
    }
    list["items"].push_back(std::move(*summary));
  }
  return list;
}

Result<Json> experiment_document(const ExperimentLocation& location, std::size_t rows) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return reader.error();
  auto summary = summary_of(*reader, location);
  if (!summary) return summary.error();
  std::vector<StoredTrial> shown;
  for (const auto state :
       {TrialState::running, TrialState::pausing, TrialState::paused, TrialState::pending}) {
    if (shown.size() >= rows) break;
    auto live = reader->trials({.state = state, .limit = rows - shown.size()});
    if (!live) return live.error();
    std::move(live->begin(), live->end(), std::back_inserter(shown));
  }
  if (shown.size() < rows) {
    auto latest = reader->trials({.limit = rows, .newest = true});
    if (!latest) return latest.error();
    for (auto each = latest->rbegin(); each != latest->rend() && shown.size() < rows; ++each) {
      if (tune::is_finished(each->state)) shown.push_back(std::move(*each));
    }
  }
  Json status = document("Experiment");
  status.update(*summary);
  status["shown"] = trial_items(shown);
  return status;
}

Result<Json> trials_document(const ExperimentLocation& location, const tune::TrialFilter& filter) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return reader.error();
  const auto trials = reader->trials(filter);
  if (!trials) return trials.error();
  Json list = document("TrialList");
  list["items"] = trial_items(*trials);
  return list;
}

Result<Json> best_document(const ExperimentLocation& location, std::size_t count) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return reader.error();
  const auto trials = reader->best(count);
  if (!trials) return trials.error();
  Json list = document("TrialList");
  list["items"] = trial_items(*trials);
  return list;
}

Result<Json> trial_document(const ExperimentLocation& location, TrialNumber number) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return reader.error();
  const auto trial = reader->trial(number);
  if (!trial) return trial.error();
  const auto attempts = reader->attempts(number);
  if (!attempts) return attempts.error();
  const auto reports = reader->reports(number);
  if (!reports) return reports.error();
  const auto checkpoints = reader->checkpoints(number);
  if (!checkpoints) return checkpoints.error();
  Json shown = document("Trial");
  shown.update(trial_item(*trial));
  shown["attempt_list"] = attempt_items(*attempts);
  shown["reports"] = report_items(*reports);
  shown["checkpoints"] = checkpoint_items(*checkpoints);
  return shown;
}

Result<Json> explanation_document(const ExperimentLocation& location, TrialNumber number) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return reader.error();
  const auto trial = reader->trial(number);
  if (!trial) return trial.error();
  const auto attempts = reader->attempts(number);
  if (!attempts) return attempts.error();
  const auto standing = standing_of(*reader, *trial);
  if (!standing) return standing.error();
  const auto experiment = reader->experiment();
  if (!experiment) return experiment.error();
  const auto decisions = reader->decisions(number);
  if (!decisions) return decisions.error();
  const tune::StoredDecision* decision = decisions->empty() ? nullptr : &decisions->back();
  const std::string controller = tune::ExperimentLock::holder(location.lock_file());
  Json explanation = document("TrialExplanation");
  explanation["trial"] = number;
  explanation["state"] = tune::state_name(trial->state);
  explanation["reason"] = reason_of(*trial, *attempts, *decisions, *experiment, controller);
  explanation["bracket"] =
      decision == nullptr ? trial->bracket : decision->note.bracket.value_or(trial->bracket);
  explanation["decisions"] = decision_items(*decisions, experiment->metric);
  explanation["attempts"] = attempt_items(*attempts);
  if (*standing) {
    explanation["standing"] = {{"iteration", (*standing)->step},
                               {"value", json_of(tune::Value((*standing)->value))},
                               {"rank", (*standing)->rank},
                               {"total", (*standing)->total},
                               {"better", (*standing)->better}};
  }
  return explanation;
}

void shorten_numbers(Json& value) {
  if (value.is_number_float())
    value = fmt::format("{:.6g}", value.get<double>());
  else if (value.is_structured())
    for (auto& each : value) shorten_numbers(each);
}

}  // namespace mobula::internal::cli
