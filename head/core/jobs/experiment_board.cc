#include "head/core/jobs/experiment_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "head/core/head_tables.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t max_report_text = 1000;
constexpr std::size_t max_name = 200;
constexpr std::size_t max_items = 500;  // entries per list of a report

constexpr auto summary_texts =
    std::to_array<const char*>({"metric", "mode", "searcher", "scheduler", "waiting"});
constexpr auto summary_numbers = std::to_array<const char*>({"samples", "elapsed_s"});
constexpr auto trial_states =
    std::to_array<const char*>({"pending", "running", "paused", "terminated", "failed"});
constexpr auto trial_texts = std::to_array<const char*>({"state", "node", "config", "error"});
constexpr auto trial_numbers =
    std::to_array<const char*>({"trial", "iteration", "value", "seconds"});

template <std::size_t N>
void copy_texts(const Json& from, const std::array<const char*, N>& names, Json& to) {
  for (const char* name : names) {
    const auto at = from.find(name);
    if (at != from.end() && at->is_string())
      to[name] = at->template get<std::string>().substr(0, max_report_text);
  }
}

template <std::size_t N>
void copy_numbers(const Json& from, const std::array<const char*, N>& names, Json& to) {
  for (const char* name : names) {
    const auto at = from.find(name);
    if (at != from.end() && at->is_number()) to[name] = *at;
  }
}

const Json& member(const Json& from, const char* name, Json::value_t type) {
  static const Json absent;
  const auto at = from.find(name);
  return at != from.end() && at->type() == type ? *at : absent;
}

// Pairs of numbers.
Json points_of(const Json& from, const char* name) {
  Json points = Json::array();
  for (const auto& point : member(from, name, Json::value_t::array)) {
    if (points.size() == max_items) break;
    if (point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number())
      points.push_back(point);
  }
  return points;
}

Json trial_of(const Json& from) {
  Json trial = Json::object();
  if (!from.is_object()) return trial;
  copy_numbers(from, trial_numbers, trial);
  copy_texts(from, trial_texts, trial);
  return trial;
}

Json trials_of(const Json& from) {
  Json trials = Json::array();
  for (const auto& each : member(from, "trials", Json::value_t::array)) {
    if (trials.size() == max_items) break;
    if (Json trial = trial_of(each); trial.contains("trial")) trials.push_back(std::move(trial));
  }
  return trials;
}

Json summary_of(const Json& from, const std::string& name) {
  Json summary = {{"name", name}, {"state", "RUNNING"}};
  const auto state = from.find("state");
  if (state != from.end() && *state == "FINISHED") summary["state"] = "FINISHED";
  copy_texts(from, summary_texts, summary);
  copy_numbers(from, summary_numbers, summary);
  summary["counts"] = Json::object();
  copy_numbers(member(from, "counts", Json::value_t::object), trial_states, summary["counts"]);
  if (const Json& best = member(from, "best", Json::value_t::object); best.is_object())
    summary["best"] = trial_of(best);
  summary["curve"] = points_of(from, "curve");
  return summary;
}

}  // namespace

Result<std::string> ExperimentBoard::report(JobId job, const std::string& text) {
  if (text.size() > max_report_bytes) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("experiment_report: the report has {} bytes; the limit is {}",
                               text.size(), max_report_bytes));
  }
  const Json json = Json::parse(text, nullptr, false);
  const Json name = json.is_object() ? member(json, "name", Json::value_t::string) : Json();
  if (!name.is_string() || name.get_ref<const std::string&>().empty() ||
      name.get_ref<const std::string&>().size() > max_name) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("experiment_report: the report is not a JSON object with a name of "
                               "1 to {} bytes",
                               max_name));
  }
  Experiment row{job, name.get<std::string>(), tables_.now, {}, {}};
  row.summary = json_text(summary_of(json, row.name));
  row.trials = json_text(Json{{"points", points_of(json, "points")}, {"trials", trials_of(json)}});
  rows_.remove_if([&](const Experiment& each) { return each.job == job && each.name == row.name; });
  rows_.push_front(std::move(row));
  if (rows_.size() > max_experiments) rows_.pop_back();
  return json_text(document("ExperimentReported"));
}

std::string ExperimentBoard::state_of(const Experiment& row, const std::string& reported) const {
  if (reported != "RUNNING") return reported;
  const Job* job = tables_.jobs.find(row.job);
  const bool runs = job != nullptr && job->end == JobEnd::runs;
  return runs && tables_.now - row.reported_at < silence_limit ? reported : "INTERRUPTED";
}

std::string ExperimentBoard::list() const {
  Json json = document("ExperimentList");
  json["items"] = Json::array();
  for (const Experiment& row : rows_) {
    Json item = Json::parse(row.summary);
    item["state"] = state_of(row, item["state"].get<std::string>());
    item["job_id"] = row.job.hex();
    item["age_s"] = (tables_.now - row.reported_at) / std::chrono::seconds(1);
    json["items"].push_back(std::move(item));
  }
  return json_text(json);
}

Result<std::string> ExperimentBoard::get(const std::string& name) const {
  const auto row = std::ranges::find(rows_, name, &Experiment::name);
  if (row == rows_.end()) {
    return failure(ErrorCode::not_found,
                   fmt::format("experiment '{}': no driver has reported it to this head; `mobula "
                               "tune status` reads its file",
                               name));
  }
  Json json = document("Experiment");
  json.update(Json::parse(row->summary));
  json["state"] = state_of(*row, json["state"].get<std::string>());
  json["job_id"] = row->job.hex();
  json["age_s"] = (tables_.now - row->reported_at) / std::chrono::seconds(1);
  json.update(Json::parse(row->trials));
  return json_text(json);
}

}  // namespace mobula::internal::head
