#include "tune/report/optuna_import.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text/json_writer.h"
#include "base/time.h"
#include "tune/store/experiment_store.h"
#include "tune/store/row_columns.h"
#include "tune/store/sqlite_database.h"

namespace mobula::internal::tune {
namespace {

struct StudyRow {
  std::int64_t id = 0;
  std::string name = {};
};

// Optuna stores the index of a choice, and the choices as JSON.
Value value_of(double stored, const std::string& distribution) {
  const auto json = nlohmann::json::parse(distribution, nullptr, false);
  const std::string kind = json.is_object() ? json.value("name", "") : "";
  const auto attributes = json.is_object() ? json.value("attributes", nlohmann::json::object())
                                           : nlohmann::json::object();
  if (kind == "CategoricalDistribution") {
    const auto choices = attributes.value("choices", nlohmann::json::array());
    const auto index = static_cast<std::size_t>(stored);
    if (!(stored >= 0) || index >= choices.size()) return Value(stored);
    const auto& choice = choices[index];
    if (choice.is_boolean()) return choice.get<bool>();
    if (choice.is_number_integer()) return choice.get<std::int64_t>();
    if (choice.is_number()) return choice.get<double>();
    return choice.is_string() ? choice.get<std::string>() : json_text(choice);
  }
  if (kind.starts_with("Int")) return static_cast<std::int64_t>(stored);
  return Value(stored);
}

class OptunaReader {
 public:
  static Result<OptunaReader> open(const OptunaImport& options) {
    struct stat file {};
    if (::stat(options.file.c_str(), &file) != 0) {
      return failure(ErrorCode::not_found,
                     fmt::format("import {}: the file does not exist", options.file));
    }
    auto database =
        SqliteDatabase::open(options.file, SqliteDatabase::Access::read, "import study of Optuna");
    if (!database) return database.error();
    OptunaReader reader(std::move(*database));
    if (auto chosen = reader.choose_study(options); !chosen) return chosen.error();
    return reader;
  }

  const std::string& name() const { return study_.name; }

  Result<Mode> mode() {
    SqliteStatement select(
        database_, "SELECT direction FROM study_directions WHERE study_id=? ORDER BY objective");
    select << study_.id;
    switch (select.step()) {
      case SqliteStatement::Step::row: return select.view(0) == "MAXIMIZE" ? Mode::max : Mode::min;
      case SqliteStatement::Step::done: return Mode::min;
      case SqliteStatement::Step::failed: break;
    }
    return database_.fault();
  }

  struct TrialOfStudy {
    std::int64_t id = 0;
    std::string state = {};
    StoredTrial row = {};
  };

  Result<std::vector<TrialOfStudy>> trials() {
    SqliteStatement select(
        database_,
        "SELECT trial_id,number,state,"
        "CAST(round((julianday(datetime_start,'utc')-2440587.5)*86400000) AS INTEGER),"
        "CAST(round((julianday(datetime_complete,'utc')-2440587.5)*86400000) AS INTEGER)"
        " FROM trials WHERE study_id=?"
        " ORDER BY number");
    select << study_.id;
    return rows_of<TrialOfStudy>(database_, select, [](const SqliteStatement& row) {
      TrialOfStudy trial{row.integer(0), row.text(2), {}};
      trial.row.trial = row.integer(1);
      trial.row.created_ms = row.integer(3);
      trial.row.ended_ms = row.integer(4);
      trial.row.attempts = 1;
      return trial;
    });
  }

  Result<Config> config(std::int64_t trial) {
    SqliteStatement select(
        database_,
        "SELECT param_name,param_value,distribution_json FROM trial_params WHERE "
        "trial_id=? ORDER BY param_id");
    select << trial;
    using Named = std::pair<std::string, Value>;
    auto rows = rows_of<Named>(database_, select, [](const SqliteStatement& row) {
      return Named(row.text(0), value_of(row.real(1), row.text(2)));
    });
    if (!rows) return rows.error();
    Config config;
    for (auto& [name, value] : *rows) config.set(name, std::move(value));
    return config;
  }

  // Intermediate values, and the values of the objectives after them.
  Result<std::vector<StoredReport>> reports(const TrialOfStudy& trial) {
    SqliteStatement select(database_,
                           "SELECT step,CASE intermediate_value_type WHEN 'INF_POS' THEN 9e999 "
                           "WHEN 'INF_NEG' THEN -9e999 ELSE intermediate_value END FROM "
                           "trial_intermediate_values WHERE trial_id=? ORDER BY step");
    select << trial.id;
    auto reports = rows_of<StoredReport>(database_, select, [&](const SqliteStatement& row) {
      const Value value = row.is_null(1) ? Value(std::nan("")) : Value(row.real(1));
      return StoredReport{
          trial.row.trial, 1, row.integer(0) + 1, trial.row.created_ms, {{"intermediate", value}}};
    });
    // Optuna stores the last intermediate value as the value of a pruned trial, which is no result.
    if (!reports || trial.state != "COMPLETE") return reports;
    SqliteStatement values(database_,
                           "SELECT objective,CASE value_type WHEN 'INF_POS' THEN 9e999 WHEN "
                           "'INF_NEG' THEN -9e999 ELSE value END AS number FROM trial_values WHERE "
                           "trial_id=? AND number IS NOT NULL ORDER BY objective");
    values << trial.id;
    using Metric = std::pair<std::string, Value>;
    auto metrics = rows_of<Metric>(database_, values, [](const SqliteStatement& row) {
      const std::int64_t objective = row.integer(0);
      return Metric(objective == 0 ? "value" : fmt::format("value_{}", objective), row.real(1));
    });
    if (!metrics) return metrics.error();
    if (!metrics->empty()) {
      const std::int64_t step = reports->empty() ? 1 : reports->back().step + 1;
      reports->push_back({trial.row.trial, 1, step, trial.row.ended_ms, std::move(*metrics)});
    }
    return reports;
  }

 private:
  explicit OptunaReader(SqliteDatabase database) : database_(std::move(database)) {}

  Result<void> choose_study(const OptunaImport& options) {
    SqliteStatement select(database_, "SELECT study_id,study_name FROM studies ORDER BY study_id");
    auto studies = rows_of<StudyRow>(database_, select, [](const SqliteStatement& row) {
      return StudyRow{row.integer(0), row.text(1)};
    });
    if (!studies) {
      return failure(ErrorCode::corrupt,
                     fmt::format("import {}: the file is not an SQLite storage of Optuna; "
                                 "export other storages with optuna.copy_study",
                                 options.file));
    }
    std::string names;
    std::vector<StudyRow> matching;
    for (const auto& each : *studies) {
      names += (names.empty() ? "" : ", ") + each.name;
      if (options.study.empty() || options.study == each.name) matching.push_back(each);
    }
    if (matching.size() == 1) {
      study_ = matching.front();
      return {};
    }
    return failure(
        ErrorCode::not_found,
        fmt::format("import {}: {} studies match; name one of them with --study: {}", options.file,
                    matching.size(), names.empty() ? "none exists" : names));
  }

  SqliteDatabase database_;
  StudyRow study_;
};

std::string end_kind(const std::string& state) {
  return state == "COMPLETE" ? "completed" : state == "PRUNED" ? "stopped" : "exception";
}

}  // namespace

Result<ImportedStudy> import_optuna(const OptunaImport& options) {
  auto reader = OptunaReader::open(options);
  if (!reader) return reader.error();
  const auto mode = reader->mode();
  if (!mode) return mode.error();
  const auto trials = reader->trials();
  if (!trials) return trials.error();
  ExperimentLocation location = options.location;
  if (location.name.empty()) location.name = reader->name();
  const nlohmann::json spec = {{"imported", "optuna"}, {"study", reader->name()}};
  auto store = ExperimentStore::create(
      location,
      {.name = location.name,
       .created_ms = trials->empty() ? wall_clock_ms() : trials->front().row.created_ms,
       .spec = json_text(spec),
       .metric = "value",
       .mode = *mode,
       .state = "finished"},
      {});
  if (!store) return store.error();
  for (const auto& trial : *trials) {
    auto config = reader->config(trial.id);
    if (!config) return config.error();
    auto reports = reader->reports(trial);
    if (!reports) return reports.error();
    StoredTrial row = trial.row;
    row.config = std::move(*config);
    const bool ended = trial.state == "COMPLETE" || trial.state == "PRUNED";
    row.state = ended ? TrialState::terminated : TrialState::failed;
    if (!ended) row.error_kind = trial.state == "FAIL" ? "exception" : "unfinished";
    StoreBatch batch{static_cast<std::uint64_t>(row.trial) + 1, {row}};
    batch.changes.emplace_back(StoredAttempt{row.trial, 1, "", 0, row.created_ms, row.ended_ms,
                                             end_kind(trial.state), ""});
    for (auto& report : *reports) batch.changes.emplace_back(std::move(report));
    (*store)->write(std::move(batch));
  }
  if (auto done = (*store)->flush(); !done) return done.error();
  return ImportedStudy{location.name, static_cast<std::int64_t>(trials->size())};
}

}  // namespace mobula::internal::tune
