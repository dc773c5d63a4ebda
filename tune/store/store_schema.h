// The schema of an experiment's file, its version, and the migration of older files.
// Thread: owner. Errors: corrupt for a foreign, damaged, or newer file.
#pragma once

#include <array>
#include <span>
#include <string>

#include "base/result.h"
#include "tune/store/sqlite_database.h"

namespace mobula::internal::tune {

constexpr int store_schema_version = 3;

// Changes a file from version `from` to `from` + 1.
struct SchemaMigration {
  int from = 0;
  const char* sql = "";
};

// The reasons of decisions by trial. `before` and `after` are JSON: the parameters of an exploit,
// or the text of the reason.
inline constexpr const char* decision_table =
    "CREATE TABLE decision("
    "trial INTEGER,event INTEGER,part INTEGER,attempt INTEGER,step INTEGER,rule TEXT,"
    "outcome TEXT,bracket INTEGER,milestone REAL,value REAL,cutoff REAL,compared INTEGER,"
    "donor INTEGER,donor_value REAL,before TEXT,after TEXT,"
    "PRIMARY KEY(trial,event,part)) WITHOUT ROWID";

// The results of finished trials, and the reasons of decisions.
inline constexpr std::array store_migrations{
    SchemaMigration{1, "CREATE TABLE outcome(trial INTEGER PRIMARY KEY, body BLOB)"},
    SchemaMigration{2, decision_table}};

struct SchemaRules {
  int version = store_schema_version;
  std::span<const SchemaMigration> migrations = store_migrations;
};

// True if the file has the tables of an experiment. Errors: corrupt for a file of another program
// or with a newer schema.
Result<bool> has_schema(SqliteDatabase& database, const SchemaRules& rules = {});
// Creates the tables.
Result<void> create_schema(SqliteDatabase& database);
// Journal mode, synchronization, and limits of the writing connection.
Result<void> configure_writer(SqliteDatabase& database);
// Migrates an older file: the steps run on a copy, which replaces the file when all have succeeded.
// The file stays unchanged on a failure. Requires the lock of the experiment.
Result<void> migrate_file(const std::string& path, const std::string& operation,
                          const SchemaRules& rules = {});

}  // namespace mobula::internal::tune
