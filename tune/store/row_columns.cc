#include "tune/store/row_columns.h"

#include <fmt/format.h>

#include <utility>

#include "base/hash.h"
#include "tune/store/config_json.h"

namespace mobula::internal::tune {
namespace {

constexpr std::string_view trial_columns =
    "SELECT id,state,config,seed,parent,bracket,attempts,created_ms,ended_ms,node,last_step,best,"
    "last,error_kind,error FROM trial";

StoredTrial trial_row(const SqliteStatement& row) {
  StoredTrial trial;
  trial.trial = row.integer(0);
  trial.state = trial_state_of(row.view(1)).value_or(TrialState::failed);
  if (auto config = config_of_json(row.view(2))) trial.config = std::move(*config);
  trial.seed = static_cast<std::uint64_t>(row.integer(3));
  trial.parent = row.optional_integer(4);
  trial.bracket = row.integer(5);
  trial.attempts = row.integer(6);
  trial.created_ms = row.integer(7);
  trial.ended_ms = row.integer(8);
  trial.node = row.text(9);
  trial.last_step = row.integer(10);
  trial.best = row.optional_real(11);
  trial.last = row.optional_real(12);
  trial.error_kind = row.text(13);
  trial.error = row.text(14);
  return trial;
}

StoredCheckpoint checkpoint_row(const SqliteStatement& row) {
  StoredCheckpoint checkpoint;
  checkpoint.number = row.integer(0);
  checkpoint.trial = row.integer(1);
  checkpoint.attempt = row.integer(2);
  checkpoint.step = row.integer(3);
  checkpoint.directory = row.text(4);
  checkpoint.bytes = row.integer(5);
  checkpoint.score = row.optional_real(6);
  checkpoint.state = row.text(7);
  checkpoint.refs = row.integer(8);
  return checkpoint;
}

}  // namespace

std::int64_t checksum_of(const StoredSnapshot& snapshot) {
  return static_cast<std::int64_t>(fnv1a(snapshot.searcher, fnv1a(snapshot.core)));
}

Result<StoredExperiment> read_experiment(SqliteDatabase& database) {
  SqliteStatement select(database,
                         "SELECT name,created_ms,spec,seed,metric,mode,state,CASE WHEN "
                         "json_valid(spec) THEN json_extract(spec,'$.end_reason') END FROM "
                         "experiment");
  switch (select.step()) {
    case SqliteStatement::Step::failed: return database.fault();
    case SqliteStatement::Step::done:
      return failure(
          ErrorCode::corrupt,
          fmt::format("read experiment: {}: the row of the experiment is missing; restore "
                      "the file from a backup",
                      database.path()));
    case SqliteStatement::Step::row: break;
  }
  StoredExperiment experiment;
  experiment.name = select.text(0);
  experiment.created_ms = select.integer(1);
  experiment.spec = select.text(2);
  experiment.seed = static_cast<std::uint64_t>(select.integer(3));
  experiment.metric = select.text(4);
  experiment.mode = select.view(5) == "max" ? Mode::max : Mode::min;
  experiment.state = select.text(6);
  experiment.end_reason = select.text(7);
  return experiment;
}

Result<std::vector<StoredSnapshot>> read_snapshots(SqliteDatabase& database) {
  SqliteStatement select(database,
                         "SELECT seq,core,searcher,checksum FROM snapshot ORDER BY seq DESC");
  using Checked = std::pair<StoredSnapshot, bool>;
  auto rows = rows_of<Checked>(database, select, [](const SqliteStatement& row) {
    StoredSnapshot snapshot{row.integer(0), row.text(1), row.text(2)};
    const bool intact = checksum_of(snapshot) == row.integer(3);
    return Checked(std::move(snapshot), intact);
  });
  if (!rows) return rows.error();
  std::vector<StoredSnapshot> intact;
  for (auto& [snapshot, is_intact] : *rows) {
    if (is_intact) intact.push_back(std::move(snapshot));
  }
  return intact;
}

Result<void> visit_events(SqliteDatabase& database, EventNumber after, const EventVisitor& visit) {
  SqliteStatement select(database,
                         "SELECT seq,kind,trial,body FROM event WHERE seq>? ORDER BY seq");
  select << after;
  for (;;) {
    const auto step = select.step();
    if (step == SqliteStatement::Step::failed) return database.fault();
    if (step == SqliteStatement::Step::done) return {};
    const auto visited =
        visit({select.integer(0), select.integer(1), select.integer(2), select.text(3)});
    if (!visited) return visited;
  }
}

Result<void> visit_trials(SqliteDatabase& database,
                          const std::function<Result<void>(const StoredTrial&)>& visit) {
  SqliteStatement select(database, fmt::format("{} ORDER BY id", trial_columns).c_str());
  for (;;) {
    const auto step = select.step();
    if (step == SqliteStatement::Step::failed) return database.fault();
    if (step == SqliteStatement::Step::done) return {};
    if (const auto visited = visit(trial_row(select)); !visited) return visited;
  }
}

Result<std::vector<StoredCheckpoint>> read_checkpoints(SqliteDatabase& database,
                                                       std::optional<TrialNumber> trial) {
  SqliteStatement select(database, trial ? "SELECT * FROM checkpoint WHERE trial=? ORDER BY id"
                                         : "SELECT * FROM checkpoint ORDER BY id");
  if (trial) select << *trial;
  return rows_of<StoredCheckpoint>(database, select, checkpoint_row);
}

Result<std::vector<StoredTrial>> read_trials(SqliteDatabase& database, const std::string& condition,
                                             const std::optional<std::string>& text,
                                             std::optional<std::int64_t> number) {
  SqliteStatement select(database, fmt::format("{} {}", trial_columns, condition).c_str());
  if (text) select << *text;
  if (number) select << *number;
  return rows_of<StoredTrial>(database, select, trial_row);
}

}  // namespace mobula::internal::tune
