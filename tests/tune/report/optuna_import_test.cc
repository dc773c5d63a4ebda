#include "tune/report/optuna_import.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>

#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

// The tables that Optuna 5.0.0 writes, with the columns that the import reads.
constexpr const char* study_tables = R"sql(
CREATE TABLE studies(study_id INTEGER PRIMARY KEY, study_name TEXT);
CREATE TABLE study_directions(study_direction_id INTEGER PRIMARY KEY, direction TEXT, study_id INTEGER,
  objective INTEGER);
CREATE TABLE trials(trial_id INTEGER PRIMARY KEY, number INTEGER, study_id INTEGER, state TEXT,
  datetime_start DATETIME, datetime_complete DATETIME);
CREATE TABLE trial_params(param_id INTEGER PRIMARY KEY, trial_id INTEGER, param_name TEXT,
  param_value FLOAT, distribution_json TEXT);
CREATE TABLE trial_values(trial_value_id INTEGER PRIMARY KEY, trial_id INTEGER, objective INTEGER,
  value FLOAT, value_type TEXT);
CREATE TABLE trial_intermediate_values(trial_intermediate_value_id INTEGER PRIMARY KEY,
  trial_id INTEGER, step INTEGER, intermediate_value FLOAT, intermediate_value_type TEXT);
INSERT INTO studies VALUES(1,'vision');
INSERT INTO study_directions VALUES(1,'MAXIMIZE',1,0);
INSERT INTO trials VALUES(10,0,1,'COMPLETE','2026-11-26 10:00:00.000000','2026-11-26 10:00:05.250000');
INSERT INTO trials VALUES(11,1,1,'PRUNED','2026-11-26 10:00:05.000000','2026-11-26 10:00:07.000000');
INSERT INTO trials VALUES(12,2,1,'RUNNING','2026-11-26 10:00:07.000000',NULL);
INSERT INTO trial_params VALUES(1,10,'lr',0.01,
  '{"name":"FloatDistribution","attributes":{"step":null,"low":0.001,"high":0.1,"log":true}}');
INSERT INTO trial_params VALUES(2,10,'layers',3,
  '{"name":"IntDistribution","attributes":{"log":false,"step":1,"low":1,"high":5}}');
INSERT INTO trial_params VALUES(3,10,'opt',1,
  '{"name":"CategoricalDistribution","attributes":{"choices":["sgd","adam"]}}');
INSERT INTO trial_params VALUES(4,11,'lr',0.05,
  '{"name":"FloatDistribution","attributes":{"step":null,"low":0.001,"high":0.1,"log":true}}');
INSERT INTO trial_values VALUES(1,10,0,0.9,'FINITE');
INSERT INTO trial_values VALUES(2,11,0,0.95,'FINITE');
INSERT INTO trial_intermediate_values VALUES(1,10,0,0.5,'FINITE');
INSERT INTO trial_intermediate_values VALUES(2,10,1,0.7,'FINITE');
INSERT INTO trial_intermediate_values VALUES(3,11,0,NULL,'NAN');
)sql";

class OptunaImportTest : public ::testing::Test {
 protected:
  OptunaImportTest() {
    char name[] = "/tmp/mobula-optuna-test-XXXXXX";
    storage_ = ::mkdtemp(name);
    file_ = storage_ + "/study.db";
  }
  ~OptunaImportTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(storage_, ignored);
  }
  void run(const char* sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  Result<ImportedStudy> import_study(const std::string& study = {}) {
    return import_optuna({.file = file_, .study = study, .location = {storage_, ""}});
  }

  std::string storage_, file_;
};

TEST_F(OptunaImportTest, ImportsTrialsAndValues) {
  run(study_tables);
  const auto imported = import_study().value();
  EXPECT_EQ(imported.name, "vision");
  EXPECT_EQ(imported.trials, 3);
  auto reader = ExperimentReader::open({storage_, "vision"}).value();
  EXPECT_EQ(reader.experiment().value().mode, Mode::max);
  const auto trials = reader.trials().value();
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(trials[0].config, (Config{{"lr", 0.01}, {"layers", 3}, {"opt", "adam"}}));
  EXPECT_EQ(trials[0].best, 0.9);
  EXPECT_EQ(trials[0].ended_ms - trials[0].created_ms, 5250);
  EXPECT_EQ(reader.reports(0).value().size(), 3u);
  EXPECT_EQ(trials[1].state, TrialState::terminated);
  EXPECT_FALSE(trials[1].best.has_value()) << "the value of a pruned trial";
  EXPECT_EQ(reader.attempts(1).value().at(0).kind, "stopped");
  EXPECT_EQ(trials[2].state, TrialState::failed);
  EXPECT_EQ(trials[2].error_kind, "unfinished");
}

TEST_F(OptunaImportTest, NamesStudiesOfTheFile) {
  run(study_tables);
  run("INSERT INTO studies VALUES(2,'audio')");
  const auto ambiguous = import_study();
  EXPECT_EQ(ambiguous.error().code, ErrorCode::not_found);
  EXPECT_THAT(ambiguous.error().text,
              HasSubstr("2 studies match; name one of them with --study: vision, audio"));
  EXPECT_EQ(import_study("audio").value().trials, 0);
}

TEST_F(OptunaImportTest, RefusesOtherFiles) {
  EXPECT_EQ(import_study().error().code, ErrorCode::not_found);
  run("CREATE TABLE x(y)");
  EXPECT_EQ(import_study().error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace mobula::internal::tune
