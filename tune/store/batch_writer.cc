#include "tune/store/batch_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "base/fd.h"
#include "base/hash.h"
#include "tune/store/config_json.h"
#include "tune/store/experiment_store.h"
#include "tune/store/row_columns.h"
#include "tune/store/store_schema.h"

namespace mobula::internal::tune {
namespace {

// A trainable may print anything; its error text must not fill the file.
constexpr std::size_t max_text_bytes = 64u << 10;

std::string_view shortened(const std::string& text) {
  return std::string_view(text).substr(0, max_text_bytes);
}

void sync_directory(const std::string& path) {
  const Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) (void)::fsync(directory.get());
}

}  // namespace

// ---- opening -----------------------------------------------------------------------------------

BatchWriter::BatchWriter(SqliteDatabase database, const StoredExperiment& experiment,
                         bool keep_events)
    : database_(std::move(database)),
      metric_(experiment.metric),
      sign_(sign_of(experiment.mode)),
      keep_events_(keep_events) {}

Result<std::unique_ptr<BatchWriter>> BatchWriter::create(const ExperimentLocation& location,
                                                         const StoredExperiment& experiment,
                                                         bool keep_events) {
  const std::string operation = fmt::format("create experiment '{}'", location.name);
  auto database = SqliteDatabase::open(location.file(), SqliteDatabase::Access::write, operation);
  if (!database) return database.error();
  const auto known = has_schema(*database);
  if (!known) return known.error();
  if (*known) {
    return failure(ErrorCode::already_exists,
                   fmt::format("{}: {} exists; choose another name, or resume the experiment",
                               operation, location.directory()));
  }
  if (auto done = configure_writer(*database); !done) return done.error();
  // The tables and the row of the experiment appear together.
  if (auto done = database->run("BEGIN IMMEDIATE"); !done) return done.error();
  if (auto done = create_schema(*database); !done) return done.error();
  {
    SqliteStatement insert(*database, "INSERT INTO experiment VALUES(1,?,?,?,?,?,?,?,?)");
    insert << experiment.name << experiment.created_ms << experiment.spec
           << static_cast<std::int64_t>(experiment.seed) << experiment.metric
           << std::string_view(experiment.mode == Mode::max ? "max" : "min")
           << std::int64_t{store_schema_version} << experiment.state;
    if (!insert.run()) return database->fault();
  }
  if (auto done = database->run("COMMIT"); !done) return done.error();
  sync_directory(location.directory());
  sync_directory(location.storage);
  database->set_operation(fmt::format("write experiment '{}'", location.name));
  return std::unique_ptr<BatchWriter>(
      new BatchWriter(std::move(*database), experiment, keep_events));
}

Result<std::unique_ptr<BatchWriter>> BatchWriter::open(const ExperimentLocation& location,
                                                       bool keep_events) {
  const std::string operation = fmt::format("resume experiment '{}'", location.name);
  if (auto done = migrate_file(location.file(), operation); !done) return done.error();
  auto database = SqliteDatabase::open(location.file(), SqliteDatabase::Access::write, operation);
  if (!database) return database.error();
  const auto known = has_schema(*database);
  if (!known) return known.error();
  if (!*known) {
    return failure(ErrorCode::not_found,
                   fmt::format("{}: {} is empty; start the experiment without resume", operation,
                               location.file()));
  }
  if (auto done = configure_writer(*database); !done) return done.error();
  const auto experiment = read_experiment(*database);
  if (!experiment) return experiment.error();
  database->set_operation(fmt::format("write experiment '{}'", location.name));
  return std::unique_ptr<BatchWriter>(
      new BatchWriter(std::move(*database), *experiment, keep_events));
}

// ---- writing -----------------------------------------------------------------------------------

SqliteStatement& BatchWriter::statement(const char* sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second;
  return statements_.emplace(sql, SqliteStatement(database_, sql)).first->second;
}

Result<void> BatchWriter::commit(const std::vector<StoreBatch>& batches) {
  auto done = commit_in_transaction(batches);
  if (done) return done;
  can_retry_ = database_.can_retry();
  if (database_.in_transaction()) static_cast<void>(database_.run("ROLLBACK"));
  metrics_.clear();  // their rows may be gone
  return done;
}

Result<void> BatchWriter::commit_in_transaction(const std::vector<StoreBatch>& batches) {
  if (auto begun = database_.run("BEGIN IMMEDIATE"); !begun) return begun;
  for (const auto& batch : batches) {
    for (const auto& change : batch.changes) {
      const bool applied = std::visit([this](const auto& row) { return apply(row); }, change);
      if (!applied) return database_.fault();
    }
  }
  return database_.run("COMMIT");
}

bool BatchWriter::apply(const StoredTrial& row) {
  const bool keeps_config = row.config.empty();
  const std::string config = to_json(row.config);
  auto& upsert = statement(
      "INSERT INTO trial(id,state,config,seed,parent,bracket,attempts,created_ms,ended_ms,node,"
      "last_step,error_kind,error) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,0,?11,?12)"
      " ON CONFLICT(id) DO UPDATE SET state=?2,config=CASE WHEN ?13 THEN config ELSE ?3 "
      "END,seed=?4,"
      "parent=?5,bracket=?6,attempts=?7,ended_ms=?9,node=CASE WHEN ?10='' THEN node ELSE ?10 END,"
      "error_kind=?11,error=?12");
  upsert << row.trial << state_name(row.state) << config << static_cast<std::int64_t>(row.seed)
         << row.parent << row.bracket << row.attempts << row.created_ms << row.ended_ms << row.node
         << row.error_kind << shortened(row.error) << std::int64_t{keeps_config};
  if (!upsert.run()) return false;
  return keeps_config || write_params(row);
}

bool BatchWriter::write_params(const StoredTrial& row) {
  auto& clear = statement("DELETE FROM param WHERE trial=?");
  clear << row.trial;
  if (!clear.run()) return false;
  for (const auto& [name, value] : row.config) {
    auto& insert = statement("INSERT OR REPLACE INTO param VALUES(?,?,?,?)");
    insert << row.trial << name;
    if (value.is_text())
      insert << std::nullopt << value.text();
    else
      insert << value.number() << std::nullopt;
    if (!insert.run()) return false;
  }
  return true;
}

bool BatchWriter::apply(const SetTrialState& row) {
  auto& update = statement("UPDATE trial SET state=? WHERE id=?");
  update << state_name(row.state) << row.trial;
  return update.run();
}

bool BatchWriter::apply(const SetTrialProcess& row) {
  auto& of_trial = statement("UPDATE trial SET node=? WHERE id=?");
  of_trial << row.node << row.trial;
  if (!of_trial.run()) return false;
  auto& of_attempt = statement("UPDATE attempt SET node=?,pid=? WHERE trial=? AND n=?");
  of_attempt << row.node << row.pid << row.trial << row.attempt;
  return of_attempt.run();
}

bool BatchWriter::apply(const StoredAttempt& row) {
  auto& insert = statement("INSERT OR REPLACE INTO attempt VALUES(?,?,?,?,?,?,?,?)");
  insert << row.trial << row.number << row.node << row.pid << row.began_ms << row.ended_ms
         << row.kind << shortened(row.text);
  return insert.run();
}

std::int64_t BatchWriter::metric_id(const std::string& name) {
  if (const auto found = metrics_.find(name); found != metrics_.end()) return found->second;
  auto& insert = statement("INSERT OR IGNORE INTO metric(name) VALUES(?)");
  insert << name;
  if (!insert.run()) return 0;
  auto& select = statement("SELECT id FROM metric WHERE name=?");
  select << name;
  const std::int64_t id = select.step() == SqliteStatement::Step::row ? select.integer(0) : 0;
  select.reset();
  if (id != 0) metrics_.emplace(name, id);
  return id;
}

bool BatchWriter::apply(const StoredReport& row) {
  // A resumed controller may repeat a report.
  auto& insert = statement("INSERT OR IGNORE INTO report VALUES(?,?,?,?) RETURNING 1");
  insert << row.trial << row.attempt << row.step << row.time_ms;
  const auto inserted = insert.step();
  insert.reset();
  if (inserted != SqliteStatement::Step::row) return inserted == SqliteStatement::Step::done;
  std::optional<double> metric;
  for (const auto& [name, value] : row.metrics) {
    const std::int64_t id = metric_id(name);
    if (id == 0) return false;
    auto& store = statement("INSERT OR REPLACE INTO value VALUES(?,?,?,?,?,?)");
    store << id << row.trial << row.attempt << row.step;
    if (value.is_text())
      store << std::nullopt << shortened(value.text());
    else
      store << value.number() << std::nullopt;
    if (!store.run()) return false;
    if (name == metric_ && !value.is_text()) metric = value.number();
  }
  if (!metric) {
    auto& update = statement("UPDATE trial SET last_step=? WHERE id=?");
    update << row.step << row.trial;
    return update.run();
  }
  // NaN is NULL: it replaces `last`, and not `best`.
  auto& update = statement(
      "UPDATE trial SET last_step=?1,last=?2,best=CASE WHEN best IS NULL OR ?2*?3>best*?3 THEN ?2 "
      "ELSE best END WHERE id=?4");
  update << row.step << *metric << sign_ << row.trial;
  return update.run();
}

bool BatchWriter::apply(const StoredCheckpoint& row) {
  auto& insert = statement("INSERT OR REPLACE INTO checkpoint VALUES(?,?,?,?,?,?,?,?,?)");
  insert << row.number << row.trial << row.attempt << row.step << row.directory << row.bytes
         << row.score << row.state << row.refs;
  return insert.run();
}

bool BatchWriter::apply(const EraseCheckpoint& row) {
  auto& erase = statement("DELETE FROM checkpoint WHERE id=?");
  erase << row.number;
  return erase.run();
}

bool BatchWriter::apply(const StoredEvent& row) {
  auto& insert = statement("INSERT INTO event VALUES(?,?,?,?)");
  insert << row.number << row.kind << row.trial;
  insert.bytes(row.body);
  return insert.run();
}

bool BatchWriter::apply(const StoredSnapshot& row) {
  auto& insert = statement("INSERT OR REPLACE INTO snapshot VALUES(?,?,?,?)");
  insert << row.number;
  insert.bytes(row.core).bytes(row.searcher) << checksum_of(row);
  if (!insert.run()) return false;
  // Without a last snapshot but one, the comparison with NULL selects no row.
  if (!keep_events_) {
    auto& prune = statement(
        "DELETE FROM event WHERE seq<=(SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1 OFFSET "
        "1)");
    if (!prune.run()) return false;
  }
  auto& prune = statement(
      "DELETE FROM snapshot WHERE seq<(SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1 OFFSET "
      "1)");
  return prune.run();
}

bool BatchWriter::apply(const SetExperimentState& row) {
  // An imported or damaged specification stays as it is.
  auto& update = statement(
      "UPDATE experiment SET state=?,spec=CASE WHEN json_valid(spec) THEN "
      "json_set(spec,'$.end_reason',?) ELSE spec END WHERE id=1");
  update << row.state << row.reason;
  return update.run();
}

bool BatchWriter::apply(const EndOpenAttempts& row) {
  auto& update = statement("UPDATE attempt SET ended_ms=?,kind=? WHERE ended_ms=0");
  update << row.ended_ms << row.kind;
  return update.run();
}

bool BatchWriter::apply(const StoredOutcome& row) {
  auto& insert = statement("INSERT OR REPLACE INTO outcome VALUES(?,?)");
  insert << row.trial;
  insert.bytes(row.body);
  return insert.run();
}

bool BatchWriter::apply(const StoredDecision& row) {
  auto& insert =
      statement("INSERT OR REPLACE INTO decision VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  const DecisionNote& note = row.note;
  std::optional<std::string> before, after;
  if (!note.after.empty()) {
    before = to_json(note.before);
    after = to_json(note.after);
  }
  insert << note.trial << row.event << row.part << row.attempt << row.step << rule_name(note.rule)
         << outcome_name(note.outcome) << note.bracket << note.milestone << note.value
         << note.cutoff << note.compared << note.donor << note.donor_value << before << after;
  return insert.run();
}

// ---- loading -----------------------------------------------------------------------------------

Result<ResumeState> BatchWriter::load() {
  auto state = load_without_events();
  if (!state) return state;
  const auto done = each_event(state->snapshots.empty() ? 0 : state->snapshots.back().number,
                               [&](const StoredEvent& event) -> Result<void> {
                                 state->events.push_back(event);
                                 return {};
                               });
  if (!done) return done.error();
  return state;
}

Result<ResumeState> BatchWriter::load_without_events() {
  ResumeState state;
  auto experiment = read_experiment(database_);
  if (!experiment) return experiment.error();
  state.experiment = std::move(*experiment);
  if (auto done = load_snapshots(state); !done) return done.error();
  if (auto done = find_last_event(state); !done) return done.error();
  if (auto done = load_checkpoints(state); !done) return done.error();
  const auto last_trial = database_.number("SELECT coalesce(max(id),-1) FROM trial");
  if (!last_trial) return last_trial.error();
  state.trial_count = *last_trial + 1;
  return state;
}

Result<void> BatchWriter::load_snapshots(ResumeState& state) {
  auto rows = read_snapshots(database_);
  if (!rows) return rows.error();
  state.snapshots = std::move(*rows);
  return {};
}

Result<void> BatchWriter::find_last_event(ResumeState& state) {
  const auto last = database_.number("SELECT coalesce(max(seq),0) FROM event");
  if (!last) return last.error();
  state.last_event = *last;
  if (state.snapshots.empty()) return {};
  const EventNumber snapshot = state.snapshots.front().number;
  if (snapshot <= *last) return {};
  return failure(ErrorCode::corrupt,
                 fmt::format("resume experiment '{}': {}: the events end at {}, before snapshot "
                             "{}; restore the file from a backup",
                             state.experiment.name, database_.path(), *last, snapshot));
}

// Events have no gaps after the oldest intact snapshot, or from 1.
Result<void> BatchWriter::each_event(EventNumber after, const EventVisitor& visit) {
  EventNumber expected = after;
  return visit_events(database_, after, [&](const StoredEvent& event) -> Result<void> {
    if (event.number == ++expected) return visit(event);
    return failure(ErrorCode::corrupt,
                   fmt::format("resume experiment: {}: event {} is missing, and no intact snapshot "
                               "replaces it; restore the file from a backup",
                               database_.path(), expected));
  });
}

Result<void> BatchWriter::load_checkpoints(ResumeState& state) {
  auto rows = read_checkpoints(database_, std::nullopt);
  if (!rows) return rows.error();
  state.checkpoints = std::move(*rows);
  for (const auto& row : state.checkpoints) {
    state.last_checkpoint = std::max(state.last_checkpoint, row.number);
  }
  return {};
}

}  // namespace mobula::internal::tune
