#include "tune/store/store_schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/fd.h"

namespace mobula::internal::tune {
namespace {

// "MbTn", so that `file` and this code recognize an experiment.
constexpr int application_id = 0x4d62546e;

// Lines of the statements that create the tables.
constexpr std::array tables{
    "CREATE TABLE experiment(",
    "id INTEGER PRIMARY KEY, name TEXT, created_ms INTEGER, spec TEXT, seed INTEGER,",
    "metric TEXT, mode TEXT, version INTEGER, state TEXT);",
    "CREATE TABLE trial(",
    "id INTEGER PRIMARY KEY, state TEXT, config TEXT, seed INTEGER, parent INTEGER, bracket "
    "INTEGER,",
    "attempts INTEGER, created_ms INTEGER, ended_ms INTEGER, node TEXT, last_step INTEGER,",
    "best REAL, last REAL, error_kind TEXT, error TEXT);",
    "CREATE INDEX trial_by_state ON trial(state);",
    "CREATE INDEX trial_by_best ON trial(best) WHERE best IS NOT NULL;",
    "CREATE TABLE param(",
    "trial INTEGER, name TEXT, number REAL, text TEXT, PRIMARY KEY(trial, name)) WITHOUT ROWID;",
    "CREATE TABLE metric(id INTEGER PRIMARY KEY, name TEXT UNIQUE);",
    "CREATE TABLE report(",
    "trial INTEGER, attempt INTEGER, step INTEGER, time_ms INTEGER,",
    "PRIMARY KEY(trial, attempt, step)) WITHOUT ROWID;",
    "CREATE TABLE value(",
    "metric INTEGER, trial INTEGER, attempt INTEGER, step INTEGER, number REAL, text TEXT,",
    "PRIMARY KEY(metric, trial, attempt, step)) WITHOUT ROWID;",
    "CREATE TABLE checkpoint(",
    "id INTEGER PRIMARY KEY, trial INTEGER, attempt INTEGER, step INTEGER, place TEXT, bytes "
    "INTEGER,",
    "score REAL, state TEXT, refs INTEGER);",
    "CREATE INDEX checkpoint_by_trial ON checkpoint(trial);",
    "CREATE TABLE attempt(",
    "trial INTEGER, n INTEGER, node TEXT, pid INTEGER, began_ms INTEGER, ended_ms INTEGER,",
    "kind TEXT, text TEXT, PRIMARY KEY(trial, n)) WITHOUT ROWID;",
    "CREATE TABLE outcome(trial INTEGER PRIMARY KEY, body BLOB);",
    "CREATE TABLE event(seq INTEGER PRIMARY KEY, kind INTEGER, trial INTEGER, body BLOB);",
    "CREATE TABLE snapshot(seq INTEGER PRIMARY KEY, core BLOB, searcher BLOB, checksum INTEGER);"};

Failure refused(const SqliteDatabase& database, const std::string& operation,
                std::string_view seen) {
  return failure(ErrorCode::corrupt, fmt::format("{}: {}: {}", operation, database.path(), seen));
}

// The steps, in one transaction on the copy.
Result<void> apply_migrations(SqliteDatabase& copy, const SchemaRules& rules) {
  const auto version = copy.number("PRAGMA user_version");
  if (!version) return version.error();
  for (std::int64_t at = *version; at < rules.version; ++at) {
    const char* sql = nullptr;
    for (const auto& each : rules.migrations) {
      if (each.from == at) sql = each.sql;
    }
    if (sql == nullptr) {
      return refused(copy, "migrate experiment",
                     fmt::format("this release does not read schema {}; use the release that "
                                 "wrote it",
                                 at));
    }
    const std::string step = fmt::format(
        "BEGIN IMMEDIATE;{};UPDATE experiment SET version={};PRAGMA user_version={};COMMIT", sql,
        at + 1, at + 1);
    if (auto done = copy.run(step.c_str()); !done) return done;
  }
  return {};
}

Result<void> copy_database(SqliteDatabase& from, SqliteDatabase& to) {
  sqlite3_backup* const backup = sqlite3_backup_init(to.handle(), "main", from.handle(), "main");
  if (backup == nullptr) return to.fault();
  const int stepped = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (stepped == SQLITE_DONE && finished == SQLITE_OK) return {};
  return to.fault();
}

void remove_with_companions(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    (void)::unlink((path + suffix).c_str());
  }
}

Result<void> sync_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) return errno_failure("synchronize " + path, errno);
  return {};
}

// Returns false if the file has the present version. Closing the connections at the end writes the
// log of the original back and removes it.
Result<bool> make_migrated_copy(const std::string& path, const std::string& copied,
                                const std::string& operation, const SchemaRules& rules) {
  auto from = SqliteDatabase::open(path, SqliteDatabase::Access::write, operation);
  if (!from) return from.error();
  const auto known = has_schema(*from, rules);
  if (!known) return known.error();
  const auto version = from->number("PRAGMA user_version");
  if (!version) return version.error();
  if (!*known || *version == rules.version) return false;
  auto to = SqliteDatabase::open(copied, SqliteDatabase::Access::write, operation);
  if (!to) return to.error();
  if (auto done = copy_database(*from, *to); !done) return done.error();
  // The copy has one file alone when it replaces the original.
  if (auto done = to->run("PRAGMA journal_mode=DELETE"); !done) return done.error();
  if (auto done = apply_migrations(*to, rules); !done) return done.error();
  return true;
}

}  // namespace

Result<bool> has_schema(SqliteDatabase& database, const SchemaRules& rules) {
  const auto version = database.number("PRAGMA user_version");
  if (!version) return version.error();
  const auto id = database.number("PRAGMA application_id");
  if (!id) return id.error();
  const auto names = database.number("SELECT count(*) FROM sqlite_schema");
  if (!names) return names.error();
  if (*names == 0 && *version == 0) return false;
  if (*id != application_id) {
    return refused(database, "open experiment",
                   "another program wrote this SQLite file; choose another storage directory");
  }
  if (*version > rules.version) {
    return refused(database, "open experiment",
                   fmt::format("schema {} is newer than schema {} of this release; use the "
                               "release that wrote the file, or a newer one",
                               *version, rules.version));
  }
  return true;
}

Result<void> create_schema(SqliteDatabase& database) {
  std::string sql;
  for (const char* line : tables) sql += fmt::format("{}\n", line);
  sql += fmt::format("{};\n", decision_table);
  sql += fmt::format("PRAGMA application_id={};PRAGMA user_version={}", application_id,
                     store_schema_version);
  return database.run(sql.c_str());
}

Result<void> configure_writer(SqliteDatabase& database) {
  for (const char* sql : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                          "PRAGMA cache_size=-16384", "PRAGMA wal_autocheckpoint=1000",
                          "PRAGMA journal_size_limit=16777216", "PRAGMA temp_store=MEMORY"}) {
    if (auto done = database.run(sql); !done) return done;
  }
  return {};
}

Result<void> migrate_file(const std::string& path, const std::string& operation,
                          const SchemaRules& rules) {
  const std::string copied = path + ".migrating";
  remove_with_companions(copied);
  const auto made = make_migrated_copy(path, copied, operation, rules);
  if (!made) {
    remove_with_companions(copied);
    return made.error();
  }
  if (!*made) return {};
  if (auto synced = sync_file(copied); !synced) return synced;
  for (const char* suffix : {"-wal", "-shm"}) (void)::unlink((path + suffix).c_str());
  if (std::rename(copied.c_str(), path.c_str()) != 0) {
    return errno_failure(operation + ": rename " + copied, errno);
  }
  return sync_file(path.substr(0, path.rfind('/') + 1));
}

}  // namespace mobula::internal::tune
