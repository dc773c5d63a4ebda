#include "tune/report/optuna_export.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tune/report/optuna_import.h"
#include "tune/report/sample_experiment.h"

namespace mobula::internal::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rows as texts with the separator "|".
std::vector<std::string> rows_of(const std::string& file, const char* sql) {
  std::vector<std::string> rows;
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  const auto collect = [](void* into, int count, char** values, char** /*names*/) {
    std::string row;
    for (int i = 0; i < count; ++i)
      row += (i == 0 ? "" : "|") + std::string(values[i] == nullptr ? "" : values[i]);
    static_cast<std::vector<std::string>*>(into)->push_back(row);
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(database, sql, collect, &rows, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
  return rows;
}

TEST(OptunaExport, WritesTrialsThatImportReads) {
  const SampleExperiment sample({.trials = 40, .reports = 16});
  // For tests/tune/oracle/export_oracle.py.
  if (const char* target = std::getenv("MOBULA_WRITE_SAMPLE"))
    std::filesystem::copy(sample.location.directory(), std::string(target) + "/sample",
                          std::filesystem::copy_options::recursive);
  const std::string file = sample.location.storage + "/study.db";
  auto original = ExperimentReader::open(sample.location).value();
  ASSERT_TRUE(export_optuna(original, file).ok());
  EXPECT_THAT(rows_of(file, "SELECT schema_version FROM version_info"), ElementsAre("12"));
  EXPECT_THAT(rows_of(file, "SELECT state,count(*) FROM trials GROUP BY state"),
              ElementsAre("COMPLETE|38", "FAIL|2"));
  const auto imported =
      import_optuna({.file = file, .location = {sample.location.storage, "again"}}).value();
  EXPECT_EQ(imported.trials, 40);
  auto copy = ExperimentReader::open({sample.location.storage, "again"}).value();
  for (TrialNumber trial = 0; trial < 40; ++trial) {
    const StoredTrial before = original.trial(trial).value();
    const StoredTrial after = copy.trial(trial).value();
    EXPECT_EQ(before.config, after.config) << trial;
    EXPECT_EQ(before.created_ms, after.created_ms) << trial;
    if (before.state == TrialState::terminated) EXPECT_EQ(before.last, after.last) << trial;
  }
  EXPECT_THAT(rows_of(file,
                      "SELECT DISTINCT distribution_json FROM trial_params WHERE "
                      "param_name='layers'"),
              ElementsAre(HasSubstr("IntDistribution")));
}

TEST(OptunaExport, UsesDomainsAndSpecialValues) {
  const SampleExperiment location({.trials = 0}, "unused");
  const ExperimentLocation at{location.location.storage, "special"};
  {
    auto store = ExperimentStore::create(
                     at,
                     {.name = "special",
                      .spec = R"({"space":{"lr":{"kind":"loguniform","low":0.001,"high":0.1},
                                  "opt":{"kind":"choice","values":["sgd",true,1]}}})",
                      .metric = "loss",
                      .mode = Mode::min},
                     {})
                     .value();
    StoreBatch batch{1, {}};
    const double inf = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double last[] = {0.5, nan, inf};
    for (TrialNumber trial = 0; trial < 3; ++trial) {
      batch.changes.emplace_back(StoredTrial{
          .trial = trial,
          .state = TrialState::terminated,
          .config = {{"lr", trial == 2 ? 0.5 : 0.01}, {"opt", trial == 0 ? Value(1) : Value(true)}},
          .created_ms = 1000,
          .ended_ms = 2000});
      // The second attempt repeats the first step.
      for (const std::int64_t attempt : {1, 2})
        batch.changes.emplace_back(StoredReport{
            trial, attempt, 1, 1500, {{"loss", last[trial] + static_cast<double>(attempt)}}});
    }
    batch.changes.emplace_back(StoredTrial{.trial = 3, .state = TrialState::pending});
    store->write(std::move(batch));
    ASSERT_TRUE(store->flush().ok());
  }
  auto reader = ExperimentReader::open(at).value();
  const std::string file = at.storage + "/study.db";
  ASSERT_TRUE(export_optuna(reader, file).ok());
  EXPECT_THAT(rows_of(file, "SELECT state FROM trials ORDER BY number"),
              ElementsAre("COMPLETE", "FAIL", "COMPLETE", "WAITING"));
  EXPECT_THAT(rows_of(file, "SELECT trial_id,value,value_type FROM trial_values"),
              ElementsAre("1|2.5|FINITE", "3||INF_POS"));
  EXPECT_THAT(rows_of(file,
                      "SELECT step,intermediate_value FROM trial_intermediate_values WHERE "
                      "trial_id=1"),
              ElementsAre("0|2.5"));
  EXPECT_THAT(rows_of(file, "SELECT param_value FROM trial_params WHERE param_name='opt'"),
              ElementsAre("2.0", "1.0", "1.0"));
  // The range contains 0.5, which a scheduler chose.
  EXPECT_THAT(rows_of(file,
                      "SELECT DISTINCT distribution_json FROM trial_params WHERE "
                      "param_name='lr'"),
              ElementsAre(R"({"name": "FloatDistribution", "attributes": {"step": null, "low": )"
                          R"(0.001, "high": 0.5, "log": true}})"));
}

}  // namespace
}  // namespace mobula::internal::tune
