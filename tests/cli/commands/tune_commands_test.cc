// `mobula tune`: the real program on files of experiments.
#include "cli/mobula_program.h"
#include "tune/report/sample_experiment.h"
#include "tune/store/experiment_store.h"
#include "tune/store/stop_requests.h"

namespace mobula::internal {
namespace {

class TuneCommands : public ProgramTest {
 protected:
  TuneCommands() : sample_({.trials = 40, .reports = 16}) {
    ::setenv("MOBULA_TUNE_STORAGE", sample_.location.storage.c_str(), 1);
  }
  ~TuneCommands() override { ::unsetenv("MOBULA_TUNE_STORAGE"); }

  const tune::SampleExperiment sample_;
};

TEST_F(TuneCommands, ListsExperiments) {
  const auto table = mobula({"tune", "list"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("NAME"));
  EXPECT_THAT(table.out, HasSubstr("sample  finished      40  loss"));
  const auto list = mobula({"tune", "list", "-o", "json"}).json();
  EXPECT_EQ(list["kind"], "ExperimentList");
  EXPECT_EQ(list["items"][0]["trials"], 40);
  EXPECT_EQ(mobula({"tune", "list", "-o", "name"}).out, "sample\n");
  const auto empty = mobula({"tune", "list", "--storage", directory_});
  EXPECT_EQ(empty.code, 0);
  EXPECT_THAT(empty.err, HasSubstr("no experiments"));
}

TEST_F(TuneCommands, ShowsStatus) {
  const auto status = mobula({"tune", "status", "sample"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("experiment sample is finished, 40 trials: "));
  EXPECT_THAT(status.out, HasSubstr("best: trial "));
  EXPECT_EQ(std::count(status.out.begin(), status.out.end(), '\n'), 20 + 4);
  const auto unknown = mobula({"tune", "status", "other"});
  EXPECT_EQ(unknown.code, 7);
  expect_one_line(unknown, "open experiment 'other'");
}

TEST_F(TuneCommands, FiltersTrials) {
  const auto failed =
      mobula({"tune", "trials", "sample", "--filter", "state=failed", "-o", "json"});
  EXPECT_EQ(failed.code, 0) << failed.err;
  ASSERT_EQ(failed.json()["items"].size(), 2u);
  EXPECT_EQ(failed.json()["items"][0]["trial"], 7);
  EXPECT_THAT(failed.json()["items"][0]["error"], HasSubstr("CUDA"));
  EXPECT_EQ(mobula({"tune", "trials", "sample", "--limit", "2", "-o", "name"}).out, "38\n39\n");
  const auto wrong = mobula({"tune", "trials", "sample", "--filter", "state=lost"});
  EXPECT_EQ(wrong.code, 2);
  expect_one_line(wrong, "--filter state=lost");
}

TEST_F(TuneCommands, ListsBestTrials) {
  const auto best = mobula({"tune", "best", "sample", "-n", "3", "-o", "json"}).json();
  ASSERT_EQ(best["items"].size(), 3u);
  EXPECT_LE(best["items"][0]["best"].get<double>(), best["items"][1]["best"].get<double>());
  // A table shows small parameters with their digits.
  const auto table = mobula({"tune", "best", "sample", "-n", "1"});
  EXPECT_THAT(table.out, HasSubstr("lr=0.00"));
}

TEST_F(TuneCommands, ShowsAndExplainsTrial) {
  const auto shown = mobula({"tune", "show", "sample", "7"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("trial 7 is failed"));
  EXPECT_THAT(shown.out, HasSubstr("METRICS"));
  const auto explained = mobula({"tune", "explain", "sample", "7"});
  EXPECT_THAT(explained.out, HasSubstr("failed after 1 attempt: exception: std::runtime_error"));
  EXPECT_THAT(explained.out, HasSubstr(" of "));
  EXPECT_EQ(mobula({"tune", "show", "sample", "99"}).code, 7);
  EXPECT_EQ(mobula({"tune", "show", "sample", "-1"}).code, 2);
}

TEST_F(TuneCommands, WritesPlotsAndExports) {
  const std::string page = directory_ + "/page.html";
  const auto plotted = mobula({"tune", "plot", "sample", "--output", page});
  EXPECT_EQ(plotted.code, 0) << plotted.err;
  EXPECT_EQ(plotted.out, "Wrote " + page + "\n");
  EXPECT_THAT(text_of(page), HasSubstr("<h2>Optimization history</h2>"));
  EXPECT_FALSE(fs::exists(page + ".part"));
  EXPECT_THAT(mobula({"tune", "export", "sample", "--format", "csv", "--output", "-"}).out,
              HasSubstr("trial,state,attempt,iteration"));
  const std::string board = directory_ + "/board";
  EXPECT_EQ(mobula({"tune", "export", "sample", "--format", "tensorboard", "--output", board}).code,
            0);
  EXPECT_TRUE(fs::exists(board + "/trial-000039"));
  expect_one_line(mobula({"tune", "plot", "sample", "--output", directory_ + "/absent/page.html"}),
                  "No such file or directory");
}

TEST_F(TuneCommands, StopsRunningExperiment) {
  EXPECT_EQ(mobula({"tune", "stop", "sample"}).out, "No process runs experiment sample\n");
  auto store = tune::ExperimentStore::resume(sample_.location, {}).value();
  EXPECT_THAT(mobula({"tune", "stop", "sample"}).out,
              HasSubstr("Requested the end of experiment sample; process "));
  EXPECT_EQ(tune::take_stop_requests(sample_.location).size(), 1u);
  EXPECT_EQ(mobula({"tune", "stop", "sample", "3"}).out, "Trial 3 has ended\n");
  const auto resumed = mobula({"tune", "resume", "sample"});
  EXPECT_EQ(resumed.code, 1);
  expect_one_line(resumed, "resume experiment 'sample': process ");
}

TEST_F(TuneCommands, ResumesWithRecordedCommand) {
  const auto without = mobula({"tune", "resume", "sample"});
  EXPECT_EQ(without.code, 7);
  expect_one_line(without, "the file records no command");
  const std::string command =
      R"(["/bin/sh", "-c", "echo $MOBULA_TUNE_RESUME $MOBULA_TUNE_STORAGE"])";
  tune::ExperimentStore::create({sample_.location.storage, "again"},
                                {.name = "again", .spec = R"({"command":)" + command + "}"}, {})
      .value();
  EXPECT_EQ(mobula({"tune", "resume", "again"}).out, "again " + sample_.location.storage + "\n");
}

TEST_F(TuneCommands, CompletesAndHelps) {
  EXPECT_THAT(mobula({"tune", "--help"}).out, HasSubstr("explain"));
  EXPECT_THAT(mobula({"complete-line", "mobula tune ex"}).out, HasSubstr("export"));
}

TEST_F(TuneCommands, ShowsReasons) {
  {
    auto store = tune::ExperimentStore::resume(sample_.location, {}).value();
    store->write({1000,
                  {tune::StoredTrial{.trial = 40},
                   tune::SetExperimentState{"running", "tune/sample/1: no node has gold"}}});
    ASSERT_TRUE(store->flush().ok());
    EXPECT_THAT(mobula({"tune", "status", "sample"}).out,
                HasSubstr("reason: tune/sample/1: no node has gold"));
    EXPECT_THAT(mobula({"tune", "explain", "sample", "40"}).out,
                HasSubstr("waits for a placement group: tune/sample/1: no node has gold"));
    store->write({1001, {tune::SetExperimentState{"finished", "the search algorithm finished"}}});
    ASSERT_TRUE(store->flush().ok());
  }
  EXPECT_THAT(mobula({"tune", "status", "sample"}).out,
              HasSubstr("reason: the search algorithm finished"));
  EXPECT_EQ(mobula({"tune", "status", "sample", "-o", "json"}).json()["reason"],
            "the search algorithm finished");
}

// Decisions about the trials 41 to 45, each of which a scheduler stopped or paused.
std::vector<tune::StoreChange> sample_decisions() {
  using tune::DecisionNote;
  using Outcome = DecisionNote::Outcome;
  using Rule = DecisionNote::Rule;
  const std::vector<DecisionNote> notes{{.trial = 41,
                                         .outcome = Outcome::stopped,
                                         .bracket = 1,
                                         .milestone = 9,
                                         .value = 0.5,
                                         .cutoff = 0.25,
                                         .compared = 12},
                                        {.trial = 42,
                                         .rule = Rule::halving,
                                         .outcome = Outcome::stopped,
                                         .bracket = 2,
                                         .milestone = 3,
                                         .value = 0.75,
                                         .cutoff = 0.5,
                                         .compared = 9},
                                        {.trial = 43,
                                         .rule = Rule::median,
                                         .outcome = Outcome::stopped,
                                         .milestone = 4,
                                         .value = 0.75,
                                         .cutoff = 0.5,
                                         .compared = 7},
                                        {.trial = 44,
                                         .outcome = Outcome::paused,
                                         .milestone = 3,
                                         .value = 0.5,
                                         .cutoff = 0.25,
                                         .compared = 5},
                                        {.trial = 45,
                                         .rule = Rule::population,
                                         .outcome = Outcome::exploited,
                                         .milestone = 8,
                                         .value = 0.5,
                                         .cutoff = 0.5,
                                         .compared = 8,
                                         .donor = 3,
                                         .donor_value = 0.125,
                                         .before = {{"lr", 0.5}},
                                         .after = {{"lr", 0.25}}}};
  std::vector<tune::StoreChange> changes;
  for (const DecisionNote& note : notes) {
    const bool lives = note.outcome != Outcome::stopped;
    changes.emplace_back(tune::StoredTrial{
        .trial = note.trial,
        .state = lives ? tune::TrialState::paused : tune::TrialState::terminated});
    changes.emplace_back(tune::StoredAttempt{
        .trial = note.trial, .number = 1, .began_ms = 1, .ended_ms = 2, .kind = "stopped"});
    changes.emplace_back(
        tune::StoredDecision{.event = 1000, .attempt = 1, .step = 3, .note = note});
  }
  // A trial that passed an earlier rung.
  changes.emplace_back(tune::StoredDecision{.event = 900,
                                            .attempt = 1,
                                            .step = 1,
                                            .note = {.trial = 41,
                                                     .bracket = 1,
                                                     .milestone = 3,
                                                     .value = 0.5,
                                                     .cutoff = 0.75,
                                                     .compared = 20}});
  return changes;
}

// The reasons in words, as the core notes them.
TEST_F(TuneCommands, ExplainsEnds) {
  using Rule = tune::DecisionNote::Rule;
  using Outcome = tune::DecisionNote::Outcome;
  const auto note = [](tune::TrialNumber trial, Rule rule, Outcome outcome,
                       std::optional<double> time, const std::string& words) {
    tune::DecisionNote made{.trial = trial, .rule = rule, .outcome = outcome, .milestone = time};
    made.set_words(words);
    return made;
  };
  std::vector<tune::StoreChange> changes;
  for (const tune::DecisionNote& each :
       {note(41, Rule::stopper, Outcome::stopped, 3, "loss 0.5 reaches its limit 0.4"),
        note(42, Rule::experiment, Outcome::stopped, {}, "the time budget ended the experiment"),
        note(43, Rule::duplicate, Outcome::stopped, {}, "trial 2 has an equal configuration"),
        note(44, Rule::resources, Outcome::paused, 2, "the trial continues in a group of {CPU 2}"),
        note(45, Rule::request, Outcome::stopped, 2, "the user stopped the trial")}) {
    changes.emplace_back(tune::StoredTrial{.trial = each.trial,
                                           .state = each.outcome == Outcome::paused
                                                        ? tune::TrialState::paused
                                                        : tune::TrialState::terminated});
    changes.emplace_back(tune::StoredDecision{.event = 1000, .step = 3, .note = each});
  }
  // A trial that waited at a rung until the end.
  changes.emplace_back(tune::StoredDecision{.event = 900,
                                            .step = 1,
                                            .note = {.trial = 42,
                                                     .outcome = Outcome::paused,
                                                     .milestone = 1,
                                                     .value = 0.5,
                                                     .cutoff = 0.25,
                                                     .compared = 6}});
  changes.emplace_back(
      tune::StoredTrial{.trial = 46, .state = tune::TrialState::running, .node = "gpu-node-1"});
  changes.emplace_back(tune::StoredTrial{.trial = 47});
  // Its process has not answered; the second attempt may run on another node than the first.
  changes.emplace_back(
      tune::StoredTrial{.trial = 48, .state = tune::TrialState::running, .node = "gpu-node-1"});
  changes.emplace_back(tune::StoredAttempt{.trial = 48, .number = 2, .began_ms = 1});
  changes.emplace_back(
      tune::SetExperimentState{"running", "max_concurrent_trials is 2, and 2 trials have groups"});
  const auto reason = [&](const std::string& trial) {
    return mobula({"tune", "explain", "sample", trial, "-o", "json"}).json()["reason"];
  };
  {
    auto store = tune::ExperimentStore::resume(sample_.location, {}).value();
    store->write({1000, std::move(changes)});
    ASSERT_TRUE(store->flush().ok());
    EXPECT_EQ(reason("41"), "stopped at time 3: loss 0.5 reaches its limit 0.4");
    EXPECT_EQ(reason("42"),
              "stopped: the time budget ended the experiment; before: paused at rung 1: loss 0.5, "
              "and the cutoff is 0.25 of 6 values; a trial that reaches the cutoff continues");
    EXPECT_EQ(reason("43"), "trial 2 has an equal configuration");
    EXPECT_EQ(reason("44"), "paused at time 2: the trial continues in a group of {CPU 2}");
    EXPECT_EQ(reason("45"), "stopped at time 2: the user stopped the trial");
    EXPECT_EQ(reason("46"), "runs on node gpu-node-1");
    EXPECT_EQ(reason("47"), "waits: max_concurrent_trials is 2, and 2 trials have groups");
    EXPECT_EQ(reason("48"), "its process starts, or started less than 2 s ago");
    store->write({1001, {tune::SetTrialProcess{48, 2, "gpu-node-2", 77}}});
    ASSERT_TRUE(store->flush().ok());
    EXPECT_EQ(reason("48"), "runs on node gpu-node-2");
    const auto shown = mobula({"tune", "show", "sample", "48", "-o", "json"}).json();
    EXPECT_EQ(shown["node"], "gpu-node-2");
    EXPECT_EQ(shown["attempt_list"][0]["pid"], 77);
  }
  EXPECT_EQ(reason("46"),
            "waits: no process runs the experiment; resume it; before: runs on node gpu-node-1");
  EXPECT_EQ(reason("47"), "waits: no process runs the experiment; resume it");
}

TEST_F(TuneCommands, ExplainsDecisions) {
  {
    auto store = tune::ExperimentStore::resume(sample_.location, {}).value();
    store->write({1000, sample_decisions()});
    ASSERT_TRUE(store->flush().ok());
  }
  const auto reason = [&](const std::string& trial) {
    return mobula({"tune", "explain", "sample", trial, "-o", "json"}).json()["reason"];
  };
  EXPECT_EQ(reason("41"),
            "stopped at rung 9 of bracket 1: loss 0.5 is worse than the cutoff 0.25 of 12 values");
  EXPECT_EQ(reason("42"),
            "stopped at milestone 3 of bracket 2: loss 0.75; the best trials continue, the worst "
            "of them has 0.5, and 9 trials were compared");
  EXPECT_EQ(reason("43"),
            "stopped at time 4: best loss 0.75 is worse than the median 0.5 of 7 trials");
  EXPECT_EQ(reason("44"),
            "paused at rung 3: loss 0.5, and the cutoff is 0.25 of 5 values; a trial that reaches "
            "the cutoff continues");
  EXPECT_EQ(reason("45"),
            "exploited at time 8: loss 0.5 is in the lower quantile, which ends at 0.5, of 8 "
            "trials; it continues from trial 3 with loss 0.125, and replaces lr 0.5 -> 0.25");
  const auto first = mobula({"tune", "explain", "sample", "41", "-o", "json"}).json();
  ASSERT_EQ(first["decisions"].size(), 2u);
  EXPECT_EQ(first["decisions"][0]["milestone"], 3);
  EXPECT_EQ(first["decisions"][0]["decision"], "continued");
  EXPECT_EQ(first["bracket"], 1);
  const auto page = mobula({"tune", "explain", "sample", "45"});
  EXPECT_THAT(page.out, HasSubstr("MILESTONE"));
  EXPECT_THAT(page.out, HasSubstr("lr 0.5 -> 0.25"));
}

TEST_F(TuneCommands, ExportsStudyOfOptuna) {
  const std::string file = directory_ + "/study.db";
  const auto exported =
      mobula({"tune", "export", "sample", "--format", "optuna", "--output", file});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out, "Wrote " + file + "\n");
  const auto imported = mobula({"tune", "import", "optuna", file, "--name", "again"});
  EXPECT_EQ(imported.out, "Imported 40 trials as experiment again\n") << imported.err;
  const auto stream = mobula({"tune", "export", "sample", "--format", "optuna", "--output", "-"});
  EXPECT_EQ(stream.code, 2);
  expect_one_line(stream, "a study is an SQLite file");
}

TEST_F(TuneCommands, ReplayNeedsRecordedCommand) {
  const auto replay = mobula({"tune", "replay", "sample"});
  EXPECT_EQ(replay.code, 7);
  expect_one_line(replay, "replay experiment 'sample': the file records no command");
}

}  // namespace
}  // namespace mobula::internal
