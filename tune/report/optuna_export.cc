#include "tune/report/optuna_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text/json_writer.h"
#include "tune/store/config_json.h"
#include "tune/store/sqlite_database.h"

namespace mobula::internal::tune {
namespace {

using Json = nlohmann::ordered_json;

// The tables of Optuna 5.0.0.
constexpr const char* tables[] = {
    "CREATE TABLE studies(study_id INTEGER NOT NULL, study_name VARCHAR(512) NOT NULL, PRIMARY "
    "KEY(study_id))",
    "CREATE UNIQUE INDEX ix_studies_study_name ON studies(study_name)",
    "CREATE TABLE version_info(version_info_id INTEGER NOT NULL, schema_version INTEGER, "
    "library_version VARCHAR(256), PRIMARY KEY(version_info_id), CHECK(version_info_id=1))",
    "CREATE TABLE study_directions(study_direction_id INTEGER NOT NULL, direction VARCHAR(8) NOT "
    "NULL, study_id INTEGER NOT NULL, objective INTEGER NOT NULL, PRIMARY KEY(study_direction_id), "
    "UNIQUE(study_id, objective), FOREIGN KEY(study_id) REFERENCES studies(study_id))",
    "CREATE TABLE study_user_attributes(study_user_attribute_id INTEGER NOT NULL, study_id "
    "INTEGER, \"key\" VARCHAR(512), value_json TEXT, PRIMARY KEY(study_user_attribute_id), "
    "UNIQUE(study_id, \"key\"), FOREIGN KEY(study_id) REFERENCES studies(study_id))",
    "CREATE TABLE study_system_attributes(study_system_attribute_id INTEGER NOT NULL, study_id "
    "INTEGER, \"key\" VARCHAR(512), value_json TEXT, PRIMARY KEY(study_system_attribute_id), "
    "UNIQUE(study_id, \"key\"), FOREIGN KEY(study_id) REFERENCES studies(study_id))",
    "CREATE TABLE trials(trial_id INTEGER NOT NULL, number INTEGER, study_id INTEGER, state "
    "VARCHAR(8) NOT NULL, datetime_start DATETIME, datetime_complete DATETIME, PRIMARY "
    "KEY(trial_id), FOREIGN KEY(study_id) REFERENCES studies(study_id))",
    "CREATE INDEX ix_trials_study_id ON trials(study_id)",
    "CREATE TABLE trial_user_attributes(trial_user_attribute_id INTEGER NOT NULL, trial_id "
    "INTEGER, \"key\" VARCHAR(512), value_json TEXT, PRIMARY KEY(trial_user_attribute_id), "
    "UNIQUE(trial_id, \"key\"), FOREIGN KEY(trial_id) REFERENCES trials(trial_id))",
    "CREATE TABLE trial_system_attributes(trial_system_attribute_id INTEGER NOT NULL, trial_id "
    "INTEGER, \"key\" VARCHAR(512), value_json TEXT, PRIMARY KEY(trial_system_attribute_id), "
    "UNIQUE(trial_id, \"key\"), FOREIGN KEY(trial_id) REFERENCES trials(trial_id))",
    "CREATE TABLE trial_params(param_id INTEGER NOT NULL, trial_id INTEGER, param_name "
    "VARCHAR(512), param_value FLOAT, distribution_json TEXT, PRIMARY KEY(param_id), "
    "UNIQUE(trial_id, param_name), FOREIGN KEY(trial_id) REFERENCES trials(trial_id))",
    "CREATE TABLE trial_values(trial_value_id INTEGER NOT NULL, trial_id INTEGER NOT NULL, "
    "objective INTEGER NOT NULL, value FLOAT, value_type VARCHAR(7) NOT NULL, PRIMARY "
    "KEY(trial_value_id), UNIQUE(trial_id, objective), FOREIGN KEY(trial_id) REFERENCES "
    "trials(trial_id))",
    "CREATE TABLE trial_intermediate_values(trial_intermediate_value_id INTEGER NOT NULL, trial_id "
    "INTEGER NOT NULL, step INTEGER NOT NULL, intermediate_value FLOAT, intermediate_value_type "
    "VARCHAR(7) NOT NULL, PRIMARY KEY(trial_intermediate_value_id), UNIQUE(trial_id, step), "
    "FOREIGN KEY(trial_id) REFERENCES trials(trial_id))",
    "CREATE TABLE trial_heartbeats(trial_heartbeat_id INTEGER NOT NULL, trial_id INTEGER NOT NULL, "
    "heartbeat DATETIME NOT NULL, PRIMARY KEY(trial_heartbeat_id), UNIQUE(trial_id), FOREIGN "
    "KEY(trial_id) REFERENCES trials(trial_id))",
    "CREATE TABLE alembic_version(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc "
    "PRIMARY KEY(version_num))",
    "INSERT INTO version_info VALUES(1,12,'5.0.0')",
    "INSERT INTO alembic_version VALUES('v3.2.0.a')"};

bool same_kind(const Value& a, const Value& b) {
  return a.is_text() == b.is_text() && a.is_truth() == b.is_truth() &&
         a.is_integer() == b.is_integer();
}

// One parameter as a distribution of Optuna.
class StudyParameter {
 public:
  // `domain`: as in the specification of the experiment; null without it.
  explicit StudyParameter(const Json& domain) {
    const std::string kind = domain.is_object() ? domain.value("kind", "") : "";
    kind_ = kind == "uniform" || kind == "loguniform"    ? Kind::number
            : kind == "integer" || kind == "log_integer" ? Kind::integer
            : kind == "choice" || kind == "grid"         ? Kind::choice
                                                         : Kind::unknown;
    is_log_ = kind.starts_with("log");
    if (kind_ == Kind::choice) {
      for (const auto& value : domain.value("values", Json::array())) add_choice(value_of(value));
    } else if (kind_ != Kind::unknown && domain.contains("low") && domain.contains("high")) {
      widen(domain["low"].get<double>());
      widen(domain["high"].get<double>());
    }
  }

  // Takes account of a value in use.
  void observe(const Value& value) {
    const bool fits = !value.is_text() && !value.is_truth() && std::isfinite(value.number());
    if (kind_ != Kind::choice && !fits) kind_ = Kind::choice;
    if (kind_ == Kind::unknown) kind_ = value.is_integer() ? Kind::integer : Kind::number;
    if (kind_ == Kind::integer && !value.is_integer()) kind_ = Kind::number;
    if (fits) widen(value.number());
    add_choice(value);
  }

  std::string distribution() const {
    if (kind_ == Kind::choice) {
      std::string choices;
      for (const Value& each : choices_) choices += (choices.empty() ? "" : ", ") + to_json(each);
      return fmt::format(
          R"({{"name": "CategoricalDistribution", "attributes": {{"choices": [{}]}}}})", choices);
    }
    const bool is_log = is_log_ && low_ > 0;
    if (kind_ == Kind::integer)
      return fmt::format(R"({{"name": "IntDistribution", "attributes": {{"log": {}, "step": 1, )"
                         R"("low": {}, "high": {}}}}})",
                         is_log, static_cast<std::int64_t>(low_), static_cast<std::int64_t>(high_));
    return fmt::format(R"({{"name": "FloatDistribution", "attributes": {{"step": null, "low": {}, )"
                       R"("high": {}, "log": {}}}}})",
                       to_json(Value(low_)), to_json(Value(high_)), is_log);
  }
  // The number that Optuna stores: the index of a choice.
  double stored(const Value& value) const {
    return kind_ == Kind::choice ? static_cast<double>(index_of(value)) : value.number();
  }

 private:
  enum class Kind { unknown, number, integer, choice };

  static Value value_of(const Json& json) {
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_integer()) return json.get<std::int64_t>();
    if (json.is_number()) return json.get<double>();
    return json.is_string() ? json.get<std::string>() : json_text(json);
  }
  void widen(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  std::size_t index_of(const Value& value) const {
    const auto same = std::find_if(choices_.begin(), choices_.end(), [&](const Value& each) {
      return same_kind(each, value) && each == value;
    });
    return static_cast<std::size_t>(same - choices_.begin());
  }
  void add_choice(const Value& value) {
    // A range has no list of its values.
    if (kind_ == Kind::number && choices_.size() >= most_values) return;
    if (index_of(value) == choices_.size()) choices_.push_back(value);
  }

  static constexpr std::size_t most_values = 1000;
  Kind kind_ = Kind::unknown;
  bool is_log_ = false;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  std::vector<Value> choices_;
};

const char* type_of(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INF_POS" : "INF_NEG";
  return "FINITE";
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

const Value* find_metric(const StoredReport& report, const std::string& name) {
  for (const auto& [each, value] : report.metrics)
    if (each == name && !value.is_text()) return &value;
  return nullptr;
}

class StudyWriter {
 public:
  StudyWriter(ExperimentReader& reader, SqliteDatabase& database, StoredExperiment experiment)
      : reader_(reader), database_(database), experiment_(std::move(experiment)) {}

  Result<void> write() {
    if (auto done = database_.run("BEGIN"); !done) return done;
    for (const char* sql : tables)
      if (auto done = database_.run(sql); !done) return done;
    const char* direction = experiment_.mode == Mode::max ? "MAXIMIZE" : "MINIMIZE";
    if (!run("INSERT INTO studies VALUES(1,?)", experiment_.name) ||
        !run("INSERT INTO study_directions VALUES(1,?,1,0)", std::string(direction)))
      return database_.fault();
    const auto trials = reader_.trials();
    if (!trials) return trials.error();
    find_parameters(*trials);
    for (const StoredTrial& trial : *trials)
      if (auto done = write_trial(trial); !done) return done;
    return database_.run("COMMIT");
  }

 private:
  template <class... T>
  bool run(const char* sql, const T&... values) {
    SqliteStatement statement(database_, sql);
    (statement << ... << values);
    return statement.run();
  }

  void find_parameters(const std::vector<StoredTrial>& trials) {
    const auto spec = Json::parse(experiment_.spec, nullptr, false);
    const Json space = spec.is_object() ? spec.value("space", Json::object()) : Json::object();
    is_imported_ = spec.is_object() && spec.contains("imported");
    for (const StoredTrial& trial : trials)
      for (const auto& [name, value] : trial.config)
        parameters_.try_emplace(name, space.value(name, Json())).first->second.observe(value);
  }

  Result<void> write_trial(const StoredTrial& trial) {
    const std::int64_t id = trial.trial + 1;
    const auto reports = reader_.reports(trial.trial);
    if (!reports) return reports.error();
    const std::optional<double> value = last_value(*reports);
    // Local times, as Optuna writes them.
    if (!run("INSERT INTO trials VALUES(?,?,1,?,"
             "strftime('%Y-%m-%d %H:%M:%f000',?/1000.0,'unixepoch','localtime'),"
             "strftime('%Y-%m-%d %H:%M:%f000',nullif(?,0)/1000.0,'unixepoch','localtime'))",
             id, trial.trial, std::string(state_of(trial, value)), trial.created_ms,
             trial.ended_ms))
      return database_.fault();
    for (const auto& [name, setting] : trial.config) {
      const StudyParameter& parameter = parameters_.at(name);
      if (!run("INSERT INTO trial_params(trial_id,param_name,param_value,distribution_json) "
               "VALUES(?,?,?,?)",
               id, name, parameter.stored(setting), parameter.distribution()))
        return database_.fault();
    }
    if (state_of(trial, value) == "COMPLETE" &&
        !run("INSERT INTO trial_values(trial_id,objective,value,value_type) VALUES(?,0,?,?)", id,
             finite(*value), std::string(type_of(*value))))
      return database_.fault();
    return write_reports(id, trial, *reports);
  }

  Result<void> write_reports(std::int64_t id, const StoredTrial& trial,
                             const std::vector<StoredReport>& reports) {
    for (const StoredReport& report : reports) {
      const Value* value = intermediate(report);
      if (value != nullptr &&
          !run("INSERT OR REPLACE INTO trial_intermediate_values(trial_id,step,"
               "intermediate_value,intermediate_value_type) VALUES(?,?,?,?)",
               id, report.step - 1, finite(value->number()), std::string(type_of(value->number()))))
        return database_.fault();
    }
    std::string metrics;
    if (!reports.empty())
      for (const auto& [name, value] : reports.back().metrics)
        if (name != experiment_.metric)
          metrics += fmt::format("{}{}: {}", metrics.empty() ? "" : ", ", json_string(name),
                                 to_json(value));
    if (!metrics.empty() && !add_attribute(id, "metrics", "{" + metrics + "}"))
      return database_.fault();
    if (!trial.error.empty() && !add_attribute(id, "error", json_string(trial.error)))
      return database_.fault();
    return {};
  }

  bool add_attribute(std::int64_t id, const std::string& key, const std::string& json) {
    return run("INSERT INTO trial_user_attributes(trial_id,\"key\",value_json) VALUES(?,?,?)", id,
               key, json);
  }

  // The metric, or the intermediate values of an imported study.
  const Value* intermediate(const StoredReport& report) const {
    return find_metric(report, is_imported_ ? "intermediate" : experiment_.metric);
  }

  std::optional<double> last_value(const std::vector<StoredReport>& reports) const {
    for (auto report = reports.rbegin(); report != reports.rend(); ++report)
      if (const Value* value = find_metric(*report, experiment_.metric)) return value->number();
    return std::nullopt;
  }

  static std::string_view state_of(const StoredTrial& trial, const std::optional<double>& value) {
    switch (trial.state) {
      case TrialState::pending: return "WAITING";
      case TrialState::running:
      case TrialState::pausing:
      case TrialState::paused: return "RUNNING";
      case TrialState::failed: return "FAIL";
      case TrialState::terminated: break;
    }
    if (!value) return "PRUNED";
    return std::isnan(*value) ? "FAIL" : "COMPLETE";
  }

  ExperimentReader& reader_;
  SqliteDatabase& database_;
  const StoredExperiment experiment_;
  bool is_imported_ = false;
  std::map<std::string, StudyParameter> parameters_;
};

}  // namespace

Result<void> export_optuna(ExperimentReader& reader, const std::string& path) {
  auto experiment = reader.experiment();
  if (!experiment) return experiment.error();
  auto database = SqliteDatabase::open(path, SqliteDatabase::Access::write, "export study");
  if (!database) return database.error();
  return StudyWriter(reader, *database, std::move(*experiment)).write();
}

}  // namespace mobula::internal::tune
