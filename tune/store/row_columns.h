// Reads rows of an experiment's tables, for resume and for commands.
// Thread: owner. Errors: corrupt and I/O failures of the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tune/store/sqlite_database.h"
#include "tune/store/stored_rows.h"

namespace mobula::internal::tune {

// Detects damage of a snapshot that the pages of SQLite do not show.
std::int64_t checksum_of(const StoredSnapshot& snapshot);

Result<StoredExperiment> read_experiment(SqliteDatabase& database);
// The intact snapshots, newest first.
Result<std::vector<StoredSnapshot>> read_snapshots(SqliteDatabase& database);
// Visits the events after `after` in their order.
Result<void> visit_events(SqliteDatabase& database, EventNumber after, const EventVisitor& visit);
Result<std::vector<StoredCheckpoint>> read_checkpoints(SqliteDatabase& database,
                                                       std::optional<TrialNumber> trial);
// `condition` follows "FROM trial" and may contain one parameter, bound to `text` or `number`.
Result<std::vector<StoredTrial>> read_trials(SqliteDatabase& database, const std::string& condition,
                                             const std::optional<std::string>& text = {},
                                             std::optional<std::int64_t> number = {});
// Visits all trials by number.
Result<void> visit_trials(SqliteDatabase& database,
                          const std::function<Result<void>(const StoredTrial&)>& visit);

// Collects the rows of a statement by `row`, which reads the present row.
template <class T, class ReadRow>
Result<std::vector<T>> rows_of(const SqliteDatabase& database, SqliteStatement& statement,
                               ReadRow&& row) {
  std::vector<T> rows;
  for (;;) {
    switch (statement.step()) {
      case SqliteStatement::Step::row: rows.push_back(row(statement)); break;
      case SqliteStatement::Step::done: return rows;
      case SqliteStatement::Step::failed: return database.fault();
    }
  }
}

}  // namespace mobula::internal::tune
