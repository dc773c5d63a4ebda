#include "tune/core/experiment/experiment_core.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "tune/core/experiment/decision_record.h"
#include "tune/experiment/experiment_world.h"

namespace mobula::internal::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Played {
  CallLog log = {};
  std::unique_ptr<ExperimentCore> core = {};
  std::vector<ExperimentCommand> commands = {};

  void feed(const ExperimentEvent& event) {
    commands.clear();
    core->step(0, event, commands);
  }
  // Starts trials 0 to count - 1 in groups 1 to count, and forgets their calls.
  void start(GroupNumber count) {
    feed(ExperimentStarted{});
    for (GroupNumber group = 1; group <= count; ++group) feed(GroupReady{group});
    log.clear();
  }
  void report(TrialNumber trial, std::int64_t attempt, std::int64_t iteration, double loss) {
    feed(TrialReported{trial, attempt, {{"training_iteration", iteration}, {"loss", loss}}, ""});
  }
  template <class Command>
  bool has() const {
    for (const auto& each : commands)
      if (std::holds_alternative<Command>(each)) return true;
    return false;
  }
};

std::unique_ptr<Played> played(std::map<std::string, Decision> decisions, int max_failures = 0,
                               std::int64_t trials = 2) {
  auto made = std::make_unique<Played>();
  ExperimentSettings settings{.metric = "loss", .num_trials = trials};
  settings.shape = GroupShape{.bundles = {{{"CPU", 10000}}}};
  settings.max_failures = max_failures;
  ExperimentParts parts;
  parts.searcher = recording_search(made->log);
  parts.scheduler = recording_scheduler(made->log, std::move(decisions));
  parts.stopper = recording_stopper(made->log, 100);
  made->core = std::make_unique<ExperimentCore>(std::move(settings), std::move(parts));
  return made;
}

TEST(ExperimentCalls, AsksWhenGroupIsReady) {
  const auto run = played({});
  run->feed(ExperimentStarted{});
  EXPECT_TRUE(run->log.empty());
  run->feed(GroupReady{1});
  EXPECT_THAT(run->log, ElementsAre("ask 0", "added 0"));
  EXPECT_TRUE(run->has<StartTrial>());
}

TEST(ExperimentCalls, PassesReportInOrderOfRay) {
  const auto run = played({});
  run->start(1);
  run->report(0, 1, 1, 0.5);
  EXPECT_THAT(run->log, ElementsAre("stopper 0", "reported 0", "search report 0 0.5"));
  EXPECT_TRUE(run->has<ContinueTrial>());
}

TEST(ExperimentCalls, StopperStops_SchedulerGetsNoReport) {
  const auto run = played({});
  run->start(1);
  run->report(0, 1, 1, 100);
  EXPECT_THAT(run->log, ElementsAre("stopper 0", "completed 0", "tell 0 100"));
  EXPECT_TRUE(run->has<EndTrial>());
}

TEST(ExperimentCalls, SchedulerStops_SearcherLearnsEnd) {
  const auto run = played({{"0.1", Decision::stop}});
  run->start(1);
  run->report(0, 1, 1, 3);
  EXPECT_THAT(run->log, ElementsAre("stopper 0", "reported 0", "completed 0", "tell 0 3"));
}

TEST(ExperimentCalls, FunctionReturns_StopperSeesLastReportTwice) {
  const auto run = played({});
  run->start(1);
  run->report(0, 1, 1, 3);
  run->log.clear();
  run->feed(TrialExited{0, 1, TrialExitKind::returned, ""});
  EXPECT_THAT(run->log, ElementsAre("stopper 0", "completed 0", "tell 0 3"));
}

TEST(ExperimentCalls, TrialFails_SchedulerGetsItAgain) {
  const auto run = played({}, 1);
  run->start(2);
  run->feed(TrialExited{0, 1, TrialExitKind::exception, "boom"});
  EXPECT_THAT(run->log, ElementsAre("failed 0", "added 0"));
  run->feed(GroupReleased{1});
  run->log.clear();
  EXPECT_EQ(run->core->record(0).attempt, 2);
  run->feed(TrialExited{0, 2, TrialExitKind::crash, "signal 6"});
  EXPECT_THAT(run->log, ElementsAre("failed 0", "tell 0 - failed"));
  EXPECT_EQ(run->core->record(0).error, "trial 0: signal 6");
  EXPECT_EQ(run->core->record(0).error_kind, "crash");
}

TEST(ExperimentCalls, NodeIsLost_FailureDoesNotCount) {
  const auto run = played({}, 0);
  run->start(1);
  run->feed(TrialExited{0, 1, TrialExitKind::node_lost, "node 7"});
  EXPECT_EQ(run->core->trials().state(0), TrialState::pending);
}

// A trial in a group without its node would look like a running trial.
TEST(ExperimentCalls, NodeIsLost_TrialWaitsForNewGroup) {
  const auto run = played({}, 0, 1);
  run->start(1);
  run->feed(TrialExited{0, 1, TrialExitKind::node_lost, "node 7"});
  run->feed(GroupReleased{1});
  EXPECT_TRUE(run->has<RemoveGroup>());
  EXPECT_FALSE(run->has<StartTrial>());
  EXPECT_EQ(run->core->trials().state(0), TrialState::pending);
  run->feed(GroupReady{2});
  EXPECT_TRUE(run->has<StartTrial>());
}

TEST(ExperimentCalls, UserStops_ReasonIsKept) {
  const auto run = played({}, 0, 1);
  run->start(1);
  EXPECT_EQ(run->core->stop_reason(), "");
  run->feed(StopRequested{});
  EXPECT_EQ(run->core->stop_reason(), "the user stopped the experiment");
}

// "trial: outcome at time: reason" of the decisions that no rule with numbers made.
std::vector<std::string> reasons(const Played& run) {
  std::vector<std::string> found;
  for (const ExperimentCommand& command : run.commands)
    if (const auto* decided = std::get_if<TrialDecided>(&command))
      found.push_back(fmt::format("{}: {} at {}: {}", decided->note.trial,
                                  static_cast<int>(decided->note.outcome),
                                  decided->note.milestone.value_or(-1), decided->note.words()));
  return found;
}

TEST(ExperimentCalls, StopperStops_TrialHasReason) {
  const auto run = played({});
  run->start(1);
  run->report(0, 1, 1, 5);
  EXPECT_THAT(reasons(*run), testing::IsEmpty());
  run->report(0, 1, 2, 100);
  EXPECT_THAT(reasons(*run), ElementsAre("0: 3 at 2: the limit is reached"));
}

TEST(ExperimentCalls, UserStopsTrial_TrialHasReason) {
  const auto run = played({{"0.2", Decision::pause}}, 0, 2);
  run->start(2);
  run->report(0, 1, 1, 5);
  run->feed(StopRequested{0});
  EXPECT_THAT(reasons(*run), ElementsAre("0: 3 at 1: the user stopped the trial"));
  run->feed(StopRequested{0});
  EXPECT_THAT(reasons(*run), testing::IsEmpty());
}

TEST(ExperimentCalls, UserStopsAll_TrialsHaveReason) {
  const auto run = played({}, 0, 2);
  run->start(2);
  run->report(1, 1, 1, 5);
  run->feed(StopRequested{});
  EXPECT_THAT(reasons(*run), ElementsAre("0: 3 at -1: the user stopped the experiment",
                                         "1: 3 at 1: the user stopped the experiment"));
}

TEST(DecisionReplay, NamesEventThatDiffers) {
  const WorldOptions options{.scheduler = "asha"};
  ExperimentWorld world(options, 3);
  world.play(20);
  std::vector<TimedEvent> events = world.events();
  const auto same = make_core(options, 3);
  DecisionReplay replayed(*same);
  for (const TimedEvent& event : events) replayed.step(event);
  EXPECT_EQ(replayed.compared(), static_cast<std::int64_t>(events.size()));
  EXPECT_EQ(replayed.differing(), 0);
  // Another seed draws other configurations.
  const auto other = make_core(options, 4);
  DecisionReplay differs(*other);
  for (const TimedEvent& event : events) differs.step(event);
  EXPECT_GT(differs.differing(), 0);
  ASSERT_FALSE(differs.differences().empty());
  EXPECT_THAT(differs.differences()[0].decisions, HasSubstr("change trial 0"));
}

TEST(ExperimentCalls, StopsPendingTrialWithoutResult) {
  const auto run = played({{"0.1", Decision::pause}}, 0, 1);
  run->start(1);
  run->report(0, 1, 1, 3);
  EXPECT_EQ(run->core->trials().state(0), TrialState::paused);
  run->log.clear();
  run->feed(StopRequested{0});
  EXPECT_THAT(run->log, ElementsAre("removed 0", "tell 0 -"));
}

TEST(ExperimentCalls, NamesMissingMetric) {
  const auto run = played({});
  run->start(1);
  run->feed(TrialReported{0, 1, {{"training_iteration", 1}, {"acc", 2}}, ""});
  EXPECT_THAT(run->core->record(0).error, HasSubstr("trial 0: report 1: metric 'loss' is missing"));
}

TEST(ExperimentCalls, IgnoresReportOfEarlierAttempt) {
  const auto run = played({}, 1);
  run->start(1);
  run->feed(TrialExited{0, 1, TrialExitKind::exception, "boom"});
  run->feed(GroupReleased{1});
  run->log.clear();
  run->report(0, 1, 1, 3);
  EXPECT_TRUE(run->log.empty());
}

TEST(ExperimentCalls, GroupIsRefused_TrialFails) {
  const auto run = played({}, 3);
  run->feed(ExperimentStarted{});
  run->feed(GroupFailed{1, "no node has 1000 CPUs"});
  EXPECT_EQ(run->core->record(0).error, "trial 0: resources_per_trial: no node has 1000 CPUs");
}

TEST(CheckpointTable, KeepsNewestAndCheckpointsInUse) {
  CheckpointTable table({.num_to_keep = 1});
  for (int iteration = 1; iteration <= 4; ++iteration)
    table.add({.trial = 0, .iteration = iteration, .directory = fmt::format("d{}", iteration)});
  const auto dropped = table.prune(0, {2});
  EXPECT_EQ(dropped.size(), 2U);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_NE(table.find(2), nullptr);
  EXPECT_NE(table.find(4), nullptr);
}

TEST(CheckpointTable, KeepsBestScores) {
  CheckpointTable table({.num_to_keep = 2, .score_attribute = "loss", .score_order = Mode::min});
  for (const double score : {3.0, 1.0, 2.0, 4.0})
    table.add({.trial = 0, .directory = fmt::format("d{}", score), .score = score});
  // The newest stays although its score is the worst.
  EXPECT_EQ(table.prune(0, {}).size(), 2U);
  EXPECT_NE(table.find(2), nullptr);
  EXPECT_NE(table.find(4), nullptr);
}

// Histories with random reports, failures, and orders of events.
class ExperimentHistories : public testing::TestWithParam<const char*> {};

TEST_P(ExperimentHistories, KeepInvariants) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const WorldOptions options{.scheduler = GetParam(),
                               .max_concurrent = seed % 3 == 0 ? 2 : 0,
                               .saves_on_request = seed % 2 == 0};
    ExperimentWorld world(options, seed);
    world.play();
    EXPECT_THAT(world.faults(), ElementsAre()) << GetParam() << ", seed " << seed;
  }
}

TEST_P(ExperimentHistories, DriverKilled_ReplayContinues) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const WorldOptions options{.scheduler = GetParam(), .saves_on_request = seed % 2 == 0};
    ExperimentWorld world(options, seed);
    world.play(static_cast<int>(seed * 7 % 100 + 1));
    EXPECT_THAT(world.faults(), ElementsAre()) << GetParam() << ", seed " << seed;
  }
}

TEST_P(ExperimentHistories, KilledDuringSave_ReplayContinues) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    const WorldOptions options{
        .scheduler = GetParam(), .saves_on_request = true, .kill_during_save = true};
    ExperimentWorld world(options, seed);
    world.play(static_cast<int>(seed * 5));
    EXPECT_THAT(world.faults(), ElementsAre()) << GetParam() << ", seed " << seed;
  }
}

// A loaded core takes over after every few events, and decides as one core does.
void expect_equal_decisions(WorldOptions options, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    options.saves_on_request = seed % 2 == 0;
    options.swap_every = static_cast<int>(seed % 5) + 1;
    ExperimentWorld world(options, seed);
    world.play(seed % 3 == 0 ? std::optional(static_cast<int>(seed * 7 % 100 + 1)) : std::nullopt);
    EXPECT_THAT(world.faults(), ElementsAre())
        << options.scheduler << ", " << options.searcher << ", seed " << seed;
  }
}

TEST_P(ExperimentHistories, LoadedCore_DecidesEqually) {
  expect_equal_decisions({.scheduler = GetParam()}, 25);
}

class LoadedSearchers : public testing::TestWithParam<const char*> {};

TEST_P(LoadedSearchers, DecideEqually) {
  const bool bohb = std::string(GetParam()) == "bohb";
  expect_equal_decisions(
      {.scheduler = bohb ? "hyperband_bohb" : "asha", .searcher = GetParam(), .trials = 20}, 6);
}

INSTANTIATE_TEST_SUITE_P(Rules, LoadedSearchers,
                         testing::Values("tpe", "bayes", "gp", "cma", "nsga2", "bohb", "sobol",
                                         "limited", "repeated"),
                         [](const auto& info) { return std::string(info.param); });

// A limiter counts paused trials, which may wait for trials that do not exist yet.
class LimitedPauses : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(LimitedPauses, AllTrialsRun) {
  const auto& [scheduler, searcher] = GetParam();
  // BayesOpt waits for its ten first trials, and each later suggestion takes long.
  const bool bayes = std::string(searcher) == "bayes";
  for (std::uint64_t seed = 1; seed <= (bayes ? 3 : 12); ++seed) {
    const WorldOptions options{.scheduler = scheduler,
                               .searcher = searcher,
                               .trials = bayes ? 13 : 20,
                               .slots = 2 + static_cast<std::int64_t>(seed % 3),
                               .saves_on_request = seed % 2 == 0,
                               .max_failures = static_cast<int>(seed % 3)};
    ExperimentWorld world(options, seed);
    world.play(seed % 4 == 0 ? std::optional(static_cast<int>(seed * 7)) : std::nullopt);
    EXPECT_THAT(world.faults(), ElementsAre()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, LimitedPauses,
                         testing::Combine(testing::Values("promotion", "hyperband", "median",
                                                          "changing_promotion"),
                                          testing::Values("limited", "limited_each", "bayes")),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param),
                                              std::get<1>(info.param));
                         });

TEST(ExperimentState, RejectsMalformedBytes) {
  const WorldOptions options{.scheduler = "pbt"};
  ExperimentWorld world(options, 3);
  world.play();
  const auto saved = world.core().save();
  for (std::size_t size = 0; size < saved->core.size(); size += 7) {
    const auto core = make_core(options, 3);
    EXPECT_FALSE(core->load(saved->core.substr(0, size), saved->searcher).ok()) << size;
  }
  std::string newer = saved->core;
  newer[0] = 9;
  EXPECT_THAT(make_core(options, 3)->load(newer, saved->searcher).error().text,
              HasSubstr("snapshot format 9, expected 1"));
}

TEST(ExperimentState, FinishedTrialsKeepTheirValueAlone) {
  ExperimentWorld world({.trials = 340, .slots = 50}, 7);
  world.play();
  std::int64_t records = 0;
  std::int64_t values = 0;
  std::int64_t failed = 0;
  for (TrialNumber trial = 0; trial < 340; ++trial) {
    failed += world.core().trials().state(trial) == TrialState::failed ? 1 : 0;
    records += world.core().has_record(trial) ? 1 : 0;
    values += std::isnan(world.core().last_value(trial)) ? 0 : 1;
  }
  EXPECT_LE(records, failed + 24 + 40 + 50);
  EXPECT_GT(values, 300);
}

INSTANTIATE_TEST_SUITE_P(Rules, ExperimentHistories,
                         testing::Values("fifo", "asha", "promotion", "hyperband", "median", "pbt",
                                         "synch_pbt", "pb2", "changing"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mobula::internal::tune
