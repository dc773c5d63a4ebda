#include "tune/report/trial_export.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "tune/store/config_json.h"

namespace mobula::internal::tune {
namespace {

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_field(const Value& value) {
  if (value.is_text()) return csv_field(value.text());
  if (value.is_number()) return fmt::format("{}", value.number());
  return to_json(value);
}

const Value* metric_of(const StoredReport& report, const std::string& name) {
  for (const auto& [each, value] : report.metrics) {
    if (each == name) return &value;
  }
  return nullptr;
}

class CsvExport {
 public:
  CsvExport(ExperimentReader& reader, const ExportSink& sink) : reader_(reader), sink_(sink) {}

  Result<void> write() {
    auto trials = reader_.trials();
    if (!trials) return trials.error();
    std::set<std::string> seen;
    for (const auto& trial : *trials) {
      for (const auto& [name, value] : trial.config) {
        if (seen.insert(name).second) parameters_.push_back(name);
      }
    }
    auto metrics = reader_.metrics();
    if (!metrics) return metrics.error();
    metrics_ = std::move(*metrics);
    if (!sink_(header())) return {};
    for (const auto& trial : *trials) {
      const auto reports = reader_.reports(trial.trial);
      if (!reports) return reports.error();
      std::string rows;
      for (const auto& report : *reports) rows += row(trial, report);
      if (reports->empty()) rows = row(trial, {.attempt = 0});
      if (!sink_(rows)) return {};
    }
    return {};
  }

 private:
  std::string header() const {
    std::string line = "trial,state,attempt,iteration,time_ms";
    for (const auto& name : parameters_) line += "," + csv_field("config/" + name);
    for (const auto& name : metrics_) line += "," + csv_field(name);
    return line + "\n";
  }

  std::string row(const StoredTrial& trial, const StoredReport& report) const {
    std::string line = fmt::format("{},{}", trial.trial, state_name(trial.state));
    line += report.attempt == 0
                ? ",,,"
                : fmt::format(",{},{},{}", report.attempt, report.step, report.time_ms);
    for (const auto& name : parameters_) {
      const Value* const value = trial.config.find(name);
      line += "," + (value == nullptr ? std::string() : csv_field(*value));
    }
    for (const auto& name : metrics_) {
      const Value* const value = metric_of(report, name);
      line += "," + (value == nullptr ? std::string() : csv_field(*value));
    }
    return line + "\n";
  }

  ExperimentReader& reader_;
  const ExportSink& sink_;
  std::vector<std::string> parameters_;
  std::vector<std::string> metrics_;
};

std::string json_of(const StoredReport& report) {
  std::string json = fmt::format("{{\"attempt\":{},\"iteration\":{},\"time_ms\":{},\"metrics\":{{",
                                 report.attempt, report.step, report.time_ms);
  for (std::size_t i = 0; i < report.metrics.size(); ++i) {
    json += fmt::format("{}{}:{}", i == 0 ? "" : ",", json_string(report.metrics[i].first),
                        to_json(report.metrics[i].second));
  }
  return json + "}}";
}

std::string json_of(const std::optional<double>& number) {
  return number ? to_json(Value(*number)) : "null";
}

std::string json_of(const StoredTrial& trial, const std::vector<StoredReport>& reports) {
  std::string json = fmt::format(
      "{{\"trial\":{},\"state\":\"{}\",\"config\":{},\"best\":{},\"last\":{},\"attempts\":{},"
      "\"node\":{},\"created_ms\":{},\"ended_ms\":{},\"seed\":{},\"error_kind\":{},\"error\":{},"
      "\"reports\":[",
      trial.trial, state_name(trial.state), to_json(trial.config), json_of(trial.best),
      json_of(trial.last), trial.attempts, json_string(trial.node), trial.created_ms,
      trial.ended_ms, trial.seed, json_string(trial.error_kind), json_string(trial.error));
  for (std::size_t i = 0; i < reports.size(); ++i)
    json += (i == 0 ? "" : ",") + json_of(reports[i]);
  return json + "]}\n";
}

}  // namespace

Result<void> export_csv(ExperimentReader& reader, const ExportSink& sink) {
  return CsvExport(reader, sink).write();
}

Result<void> export_json_lines(ExperimentReader& reader, const ExportSink& sink) {
  const auto trials = reader.trials();
  if (!trials) return trials.error();
  for (const auto& trial : *trials) {
    const auto reports = reader.reports(trial.trial);
    if (!reports) return reports.error();
    if (!sink(json_of(trial, *reports))) return {};
  }
  return {};
}

}  // namespace mobula::internal::tune
