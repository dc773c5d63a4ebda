// Experiments that continue after SIGKILL of their driver.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tune/core/experiment/experiment_events.h"
#include "tune/store/experiment_reader.h"
#include "tune/store/experiment_store.h"

namespace mobula::internal::tune {
namespace {

namespace fs = std::filesystem;

struct DriverRun {
  int status = 0;
  std::string output = {};
};

DriverRun run_command(const std::string& command) {
  DriverRun run;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) run.output += part.data();
  run.status = ::pclose(pipe);
  return run;
}

DriverRun run_driver(const std::string& storage, const std::string& rule, int kill_at,
                     const std::string& errors = "2>/dev/null") {
  return run_command("exec env MOBULA_ADDRESS=local " MOBULA_BINARY_DIR "/bin/tune_resume_driver " +
                     storage + " " + rule + " " + std::to_string(kill_at) + " " + errors);
}

// Rules with "_snapshots" take a snapshot after every few events.
class TuneResume : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != rule_) ::setenv("MOBULA_TUNE_SNAPSHOT_EVENTS", "7", 1);
    std::string pattern = fs::temp_directory_path() / "tune-resume-XXXXXX";
    storage_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override {
    ::unsetenv("MOBULA_TUNE_SNAPSHOT_EVENTS");
    fs::remove_all(storage_);
  }

  std::string storage_;
  const std::string rule_ = GetParam().substr(0, GetParam().find('_'));
};

TEST_P(TuneResume, DriverKilled_ExperimentContinues) {
  for (const int kill_at : {1, 6, 9}) {
    const DriverRun killed = run_driver(storage_, rule_, kill_at);
    if (WIFEXITED(killed.status)) break;  // fewer reports were left
    EXPECT_EQ(WTERMSIG(killed.status), SIGKILL);
  }
  const DriverRun done = run_driver(storage_, rule_, 0);
  ASSERT_TRUE(WIFEXITED(done.status));
  EXPECT_EQ(WEXITSTATUS(done.status), 0);
  std::istringstream lines(done.output);
  auto reader = ExperimentReader::open({.storage = storage_, .name = rule_});
  ASSERT_TRUE(reader.ok());
  // A trial that lags may get the checkpoint of the last step, and has no further report.
  const auto got_last_step = [&](int trial, int step) {
    const auto decisions = reader->decisions(trial).value();
    return !decisions.empty() && decisions.back().step == step &&
           decisions.back().note.outcome == DecisionNote::Outcome::exploited;
  };
  int trials = 0;
  int complete = 0;
  for (std::string line; std::getline(lines, line); ++trials) {
    std::istringstream words(line);
    int trial = 0;
    int step = 0;
    int iteration = 0;
    std::string error;
    words >> trial >> step >> iteration >> error;
    EXPECT_EQ(error, "''") << line;
    // A trial continues from its checkpoint, and its iterations with it.
    EXPECT_EQ(step, iteration) << line;
    complete += step == 8 || got_last_step(trial, step) ? 1 : 0;
    if (rule_ == "user") {
      EXPECT_NE(line.find("lr: 0." + std::to_string(trial + 1)), std::string::npos) << line;
    }
  }
  EXPECT_EQ(trials, 5) << done.output;
  EXPECT_GE(complete, rule_ == "pbt" ? 5 : 1) << done.output;

  EXPECT_EQ(reader->experiment().value().state, "finished");
  EXPECT_EQ(reader->snapshots().value().empty(), GetParam() == rule_);
  EXPECT_EQ(reader->first_event().value() > 1, GetParam() != rule_);
  for (const auto& attempt : reader->attempts().value()) EXPECT_GT(attempt.ended_ms, 0);
  // Each checkpoint of the storage has a row, and no temporary directory is left.
  std::set<std::string> rows;
  for (TrialNumber trial = 0; trial < 5; ++trial) {
    const auto list = reader->checkpoints(trial).value();
    for (const auto& row : list) rows.insert(row.directory);
  }
  for (const auto& entry : fs::directory_iterator(storage_ + "/" + rule_ + "/checkpoints"))
    EXPECT_TRUE(rows.contains(entry.path())) << entry.path();
}

// Runs `mobula tune replay`, which runs the recorded program.
DriverRun replay(const std::string& storage, const std::string& rule) {
  return run_command("exec env MOBULA_ADDRESS=local " MOBULA_BINARY_DIR "/bin/mobula tune replay " +
                     rule + " --storage " + storage + " 2>&1");
}

TEST_P(TuneResume, Replay_ComparesDecisions) {
  EXPECT_EQ(run_driver(storage_, rule_, 9).status, SIGKILL);
  EXPECT_EQ(run_driver(storage_, rule_, 0).status, 0);
  const DriverRun same = replay(storage_, rule_);
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_NE(same.output.find(" with recorded decisions, 0 differ"), std::string::npos)
      << same.output;
  // The retained events of ASHA create no trials, so they have no draws.
  if (rule_ != GetParam() && rule_ != "pbt") return;
  // Another seed of the experiment decides differently.
  sqlite3* database = nullptr;
  const std::string file = storage_ + "/" + rule_ + "/experiment.sqlite";
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "UPDATE experiment SET seed=12", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  const DriverRun other = replay(storage_, rule_);
  EXPECT_EQ(WEXITSTATUS(other.status), 1) << other.output;
  EXPECT_NE(other.output.find("the replay decides: "), std::string::npos) << other.output;
}

TEST_P(TuneResume, SecondDriver_IsRefused) {
  auto lock = ExperimentStore::create({storage_, rule_}, {.name = rule_, .spec = "{}"}, {});
  ASSERT_TRUE(lock.ok());
  const DriverRun second = run_driver(storage_, rule_, 0, "2>&1");
  EXPECT_NE(second.status, 0);
  EXPECT_NE(second.output.find("runs it; wait for its end, or stop it"), std::string::npos)
      << second.output;
}

INSTANTIATE_TEST_SUITE_P(Rules, TuneResume,
                         ::testing::Values("pbt", "asha", "pbt_snapshots", "asha_snapshots", "user",
                                           "user_snapshots"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mobula::internal::tune
