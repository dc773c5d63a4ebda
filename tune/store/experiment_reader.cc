#include "tune/store/experiment_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "tune/core/state_archive.h"
#include "tune/store/config_json.h"
#include "tune/store/row_columns.h"
#include "tune/store/sqlite_database.h"
#include "tune/store/store_schema.h"

namespace mobula::internal::tune {
namespace {

// NaN is stored as NULL in both columns.
Value metric_value(const SqliteStatement& row, int number, int text) {
  if (!row.is_null(number)) return row.real(number);
  if (!row.is_null(text)) return row.text(text);
  return std::numeric_limits<double>::quiet_NaN();
}

StoredDecision decision_row(const SqliteStatement& row) {
  StoredDecision decision{row.integer(1), row.integer(2), row.integer(3), row.integer(4), {}};
  DecisionNote& note = decision.note;
  note.trial = row.integer(0);
  note.rule = rule_of(row.view(5));
  note.outcome = outcome_of(row.view(6));
  note.bracket = row.optional_integer(7);
  note.milestone = row.optional_real(8);
  note.value = row.optional_real(9);
  note.cutoff = row.optional_real(10);
  note.compared = row.integer(11);
  note.donor = row.optional_integer(12);
  note.donor_value = row.optional_real(13);
  if (!row.is_null(15)) {
    if (auto before = config_of_json(row.view(14))) note.before = std::move(*before);
    if (auto after = config_of_json(row.view(15))) note.after = std::move(*after);
  }
  return decision;
}

// The values of one trial by attempt, step, and name. The first two tables drive the lookups.
constexpr const char* reports_of_trial =
    "SELECT report.attempt,report.step,report.time_ms,metric.name,value.number,value.text,"
    "value.metric"
    " FROM report LEFT JOIN metric LEFT JOIN value ON value.metric=metric.id AND"
    " value.trial=report.trial AND value.attempt=report.attempt AND value.step=report.step"
    " WHERE report.trial=? ORDER BY report.attempt,report.step,metric.name";

Result<std::vector<StoredReport>> reports_by(const SqliteDatabase& database,
                                             SqliteStatement& select, TrialNumber trial) {
  std::vector<StoredReport> reports;
  select << trial;
  for (;;) {
    const auto step = select.step();
    if (step == SqliteStatement::Step::failed) return database.fault();
    if (step == SqliteStatement::Step::done) break;
    const std::int64_t attempt = select.integer(0);
    const std::int64_t at = select.integer(1);
    if (reports.empty() || reports.back().attempt != attempt || reports.back().step != at) {
      reports.push_back({trial, attempt, at, select.integer(2), {}});
    }
    if (!select.is_null(6)) {
      reports.back().metrics.emplace_back(select.text(3), metric_value(select, 4, 5));
    }
  }
  select.reset();
  return reports;
}

}  // namespace

ExperimentReader::ExperimentReader(std::unique_ptr<SqliteDatabase> database, std::string path)
    : database_(std::move(database)), path_(std::move(path)) {}
ExperimentReader::~ExperimentReader() = default;
ExperimentReader::ExperimentReader(ExperimentReader&&) noexcept = default;
ExperimentReader& ExperimentReader::operator=(ExperimentReader&&) noexcept = default;

Result<ExperimentReader> ExperimentReader::open(const ExperimentLocation& location) {
  if (auto valid = location.check(); !valid) return valid.error();
  struct stat file {};
  if (::stat(location.file().c_str(), &file) != 0) {
    return failure(
        ErrorCode::not_found,
        fmt::format("open experiment '{}': {} does not exist; `mobula tune list` names the "
                    "experiments",
                    location.name, location.file()));
  }
  auto database = SqliteDatabase::open(location.file(), SqliteDatabase::Access::read,
                                       fmt::format("read experiment '{}'", location.name));
  if (!database) return database.error();
  const auto known = has_schema(*database);
  if (!known) return known.error();
  if (!*known) {
    return failure(ErrorCode::not_found, fmt::format("open experiment '{}': {} is empty; its "
                                                     "controller has not started",
                                                     location.name, location.file()));
  }
  return ExperimentReader(std::make_unique<SqliteDatabase>(std::move(*database)), location.file());
}

Result<StoredExperiment> ExperimentReader::experiment() { return read_experiment(*database_); }

Result<std::vector<StateCount>> ExperimentReader::counts() {
  SqliteStatement select(*database_, "SELECT state,count(*) FROM trial GROUP BY state");
  return rows_of<StateCount>(*database_, select, [](const SqliteStatement& row) {
    return StateCount{trial_state_of(row.view(0)).value_or(TrialState::failed), row.integer(1)};
  });
}

Result<std::int64_t> ExperimentReader::report_count() {
  return database_->number("SELECT count(*) FROM report");
}

Result<std::vector<StoredTrial>> ExperimentReader::trials(const TrialFilter& filter) {
  std::string condition = filter.state ? "WHERE state=? " : "";
  condition += filter.newest ? "ORDER BY id DESC" : "ORDER BY id";
  if (filter.limit != 0) condition += fmt::format(" LIMIT {}", filter.limit);
  std::optional<std::string> state;
  if (filter.state) state = std::string(state_name(*filter.state));
  auto rows = read_trials(*database_, condition, state);
  if (rows && filter.newest) std::reverse(rows->begin(), rows->end());
  return rows;
}

Result<StoredTrial> ExperimentReader::trial(TrialNumber number) {
  auto rows = read_trials(*database_, "WHERE id=?", std::nullopt, number);
  if (!rows) return rows.error();
  if (rows->empty()) {
    const auto last = database_->number("SELECT coalesce(max(id),-1) FROM trial");
    return failure(ErrorCode::not_found,
                   fmt::format("read trial {}: {} has no such trial; the numbers are 0 to {}",
                               number, path_, last ? *last : -1));
  }
  return std::move(rows->front());
}

Result<std::vector<StoredTrial>> ExperimentReader::best(std::size_t count) {
  const auto experiment = read_experiment(*database_);
  if (!experiment) return experiment.error();
  return read_trials(*database_,
                     fmt::format("WHERE best IS NOT NULL ORDER BY best {}, id LIMIT {}",
                                 experiment->mode == Mode::max ? "DESC" : "ASC", count));
}

Result<std::vector<StoredAttempt>> ExperimentReader::attempts(std::optional<TrialNumber> trial) {
  SqliteStatement select(*database_, trial ? "SELECT * FROM attempt WHERE trial=? ORDER BY n"
                                           : "SELECT * FROM attempt ORDER BY trial,n");
  if (trial) select << *trial;
  return rows_of<StoredAttempt>(*database_, select, [](const SqliteStatement& row) {
    return StoredAttempt{row.integer(0), row.integer(1), row.text(2), row.integer(3),
                         row.integer(4), row.integer(5), row.text(6), row.text(7)};
  });
}

Result<std::vector<StoredReport>> ExperimentReader::reports(TrialNumber trial) {
  SqliteStatement select(*database_, reports_of_trial);
  return reports_by(*database_, select, trial);
}

Result<void> ExperimentReader::each_report(const std::function<void(const StoredReport&)>& visit) {
  const auto last = database_->number("SELECT coalesce(max(id),-1) FROM trial");
  if (!last) return last.error();
  SqliteStatement select(*database_, reports_of_trial);
  for (TrialNumber trial = 0; trial <= *last; ++trial) {
    const auto reports = reports_by(*database_, select, trial);
    if (!reports) return reports.error();
    for (const auto& report : *reports) visit(report);
  }
  return {};
}

Result<std::vector<StoredCheckpoint>> ExperimentReader::checkpoints(TrialNumber trial) {
  return read_checkpoints(*database_, trial);
}

Result<std::vector<StoredDecision>> ExperimentReader::decisions(TrialNumber trial) {
  const auto tables = database_->number("SELECT count(*) FROM sqlite_schema WHERE name='decision'");
  if (!tables) return tables.error();
  if (*tables == 0) return std::vector<StoredDecision>();
  SqliteStatement select(*database_, "SELECT * FROM decision WHERE trial=? ORDER BY event,part");
  select << trial;
  return rows_of<StoredDecision>(*database_, select, decision_row);
}

Result<std::vector<StoredEvent>> ExperimentReader::events(EventNumber after) {
  std::vector<StoredEvent> events;
  const auto done = visit_events(*database_, after, [&](const StoredEvent& event) -> Result<void> {
    events.push_back(event);
    return {};
  });
  if (!done) return done.error();
  return events;
}

Result<void> ExperimentReader::each_event(EventNumber after, const EventVisitor& visit) {
  return visit_events(*database_, after, visit);
}

Result<EventNumber> ExperimentReader::first_event() {
  return database_->number("SELECT coalesce(min(seq),0) FROM event");
}

Result<void> ExperimentReader::each_outcome(
    const std::function<Result<void>(const StoredTrial&, const TrialOutcome&)>& visit) {
  SqliteStatement select(*database_, "SELECT body FROM outcome WHERE trial=?");
  return visit_trials(*database_, [&](const StoredTrial& trial) -> Result<void> {
    select << trial.trial;
    TrialOutcome outcome;
    const auto step = select.step();
    if (step == SqliteStatement::Step::failed) return database_->fault();
    Result<void> loaded;
    if (step == SqliteStatement::Step::row)
      loaded = load_state(outcome, select.text(0), "result of a trial");
    select.reset();
    if (!loaded) return loaded;
    return visit(trial, outcome);
  });
}

Result<std::vector<StoredSnapshot>> ExperimentReader::snapshots() {
  return read_snapshots(*database_);
}

Result<std::vector<std::string>> ExperimentReader::metrics() {
  SqliteStatement select(*database_, "SELECT name FROM metric ORDER BY name");
  return rows_of<std::string>(*database_, select,
                              [](const SqliteStatement& row) { return row.text(0); });
}

Result<std::vector<MetricPoint>> ExperimentReader::points(const std::string& metric) {
  SqliteStatement select(*database_,
                         "SELECT trial,attempt,step,number FROM value WHERE number IS NOT NULL AND "
                         "metric=(SELECT id FROM metric WHERE name=?) ORDER BY trial,attempt,step");
  select << metric;
  return rows_of<MetricPoint>(*database_, select, [](const SqliteStatement& row) {
    return MetricPoint{row.integer(0), row.integer(1), row.integer(2), row.real(3)};
  });
}

std::vector<std::string> experiment_names(const std::string& storage) {
  std::vector<std::string> names;
  std::error_code code;
  for (std::filesystem::directory_iterator each(storage, code), end; !code && each != end;
       each.increment(code)) {
    const std::string name = each->path().filename().string();
    if (std::filesystem::exists(ExperimentLocation{storage, name}.file(), code))
      names.push_back(name);
    code.clear();
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mobula::internal::tune
