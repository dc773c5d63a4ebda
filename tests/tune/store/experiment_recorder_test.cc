// Snapshots of experiments in their file, and the resume from them.
#include "tune/runtime/experiment/experiment_recorder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tune/core/schedulers/successive_halving.h"
#include "tune/core/searchers/variant_search.h"
#include "tune/store/store_fixture.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

std::unique_ptr<ExperimentCore> make_core() {
  ExperimentSettings settings{.metric = "loss", .seed = 5, .num_trials = 60};
  settings.shape = GroupShape{.bundles = {{{"CPU", 10000}}}};
  ExperimentParts parts;
  parts.searcher = VariantSearch::make(Space{{"x", uniform(0, 1)}}, {.num_samples = 60}, 5).value();
  parts.scheduler = make_successive_halving({.max_t = 9, .reduction_factor = 3}).value();
  parts.stopper = make_combined_stopper({});
  return std::make_unique<ExperimentCore>(std::move(settings), std::move(parts));
}

// One group in which trials report in turn.
class RecorderTest : public StoreTest {
 protected:
  void start(const SnapshotRule& rule, StoreOptions options = {}) {
    core_ = make_core();
    log_ = ExperimentLog::create(location_,
                                 {.name = location_.name, .spec = "{}", .metric = "loss"}, options)
               .value();
    recorder_ = std::make_unique<ExperimentRecorder>(*core_, *log_, 0, rule, clock(0));
    feed(ExperimentStarted{});
  }
  void feed(const ExperimentEvent& event) {
    std::vector<ExperimentCommand> commands;
    ++events_;
    recorder_->step(recorder_->clock().seconds(), event, commands);
    for (const ExperimentCommand& command : commands) {
      if (const auto* started = std::get_if<StartTrial>(&command)) {
        trial_ = started->trial;
        step_ = 0;
      }
      if (std::holds_alternative<EndTrial>(command)) ended_ = true;
    }
  }
  void play(int events) {
    if (trial_ < 0) feed(GroupReady{1});
    while (events_ < events && !core_->ended()) {
      if (ended_) {
        ended_ = false;
        feed(GroupReleased{1});
        continue;
      }
      ++step_;
      feed(TrialReported{trial_,
                         core_->record(trial_).attempt,
                         {{"loss", core_->record(trial_).config.get("x").number() / step_},
                          {"training_iteration", step_}},
                         ""});
    }
  }
  // A second per event, and a wall clock that jumps.
  ExperimentClock clock(double offset_s) {
    return ExperimentClock(offset_s, {.monotonic = [this] { return std::chrono::seconds(events_); },
                                      .wall_ms = [this] { return events_ * 1000 + jump_ms_; }});
  }
  std::string state() const {
    const auto saved = core_->save();
    return saved->core + saved->searcher;
  }
  // The driver ends, and another one continues. Returns the number of replayed events.
  std::int64_t resume() {
    log_->flush();
    recorder_.reset();
    log_.reset();
    core_ = make_core();
    ResumeState stored;
    log_ = ExperimentLog::resume(location_, stored).value();
    recorder_ = std::make_unique<ExperimentRecorder>(*core_, *log_, 0, SnapshotRule{.events = 10});
    recorder_->set_clock(clock(events_));
    const auto replayed = recorder_->restore(stored.snapshots).value();
    EXPECT_EQ(replayed.differing(), 0);
    EXPECT_EQ(replayed.events(), events_);
    return replayed.compared();
  }

  std::unique_ptr<ExperimentCore> core_;
  std::unique_ptr<ExperimentLog> log_;
  std::unique_ptr<ExperimentRecorder> recorder_;
  int events_ = 0;
  std::int64_t jump_ms_ = 0;
  TrialNumber trial_ = -1;
  std::int64_t step_ = 0;
  bool ended_ = false;
};

TEST_F(RecorderTest, ResumeReplaysEventsSinceSnapshot) {
  start({.events = 10});
  for (const int events : {7, 30, 54, 98}) {
    play(events);
    const std::string before = state();
    const double last_s = recorder_->last_s();
    EXPECT_EQ(resume(), events % 10);
    EXPECT_EQ(state(), before);
    EXPECT_EQ(recorder_->last_s(), last_s);
  }
  // The events before the last snapshot but one are deleted.
  EXPECT_GT(read().first_event().value(), 60);
}

TEST_F(RecorderTest, KeepsEventsWhenRequested) {
  start({.events = 10}, {.keep_events = true});
  play(95);
  log_->flush();
  EXPECT_EQ(read().first_event().value(), 1);
}

TEST_F(RecorderTest, DamagedSnapshot_ReplaysFromTheOneBefore) {
  start({.events = 10});
  play(95);
  const std::string before = state();
  log_->flush();
  change_file("UPDATE snapshot SET core=x'00' WHERE seq=90");
  EXPECT_EQ(resume(), 15);
  EXPECT_EQ(state(), before);
}

TEST_F(RecorderTest, BusyCore_TakesSnapshotsEarlier) {
  start({.events = 1'000'000, .busy = std::chrono::milliseconds(0)});
  play(40);
  log_->flush();
  EXPECT_FALSE(read().snapshots().value().empty());
}

// A snapshot keeps the time of creation of live trials, and rows keep it afterwards.
TEST_F(RecorderTest, RowsKeepTimeOfCreation) {
  start({.events = 10});
  play(50);
  resume();
  play(300);
  log_->flush();
  std::int64_t earlier = 0;
  auto reader = read();
  for (const auto& trial : reader.trials().value()) {
    EXPECT_GE(trial.created_ms, earlier);
    EXPECT_EQ(trial.created_ms % 1000, 0) << trial.trial;
    earlier = trial.created_ms;
  }
  EXPECT_GT(earlier, 50'000);
}

TEST_F(RecorderTest, WallClockJumps_TimesStayInOrder) {
  start({.events = 10});
  constexpr std::int64_t day_ms = 86'400'000;
  for (const std::int64_t jump : {std::int64_t{0}, -day_ms, day_ms, -2 * day_ms}) {
    jump_ms_ = jump;
    play(events_ + 60);
  }
  log_->flush();
  auto reader = read();
  std::int64_t created = 0;
  std::int64_t began = 0;
  for (const auto& trial : reader.trials().value()) {
    EXPECT_GE(trial.created_ms, created) << trial.trial;
    created = trial.created_ms;
    if (trial.ended_ms != 0) {
      EXPECT_GE(trial.ended_ms, trial.created_ms) << trial.trial;
    }
    for (const auto& attempt : reader.attempts(trial.trial).value()) {
      EXPECT_GE(attempt.began_ms, began) << trial.trial;
      began = attempt.began_ms;
    }
    std::int64_t reported = trial.created_ms;
    for (const auto& report : reader.reports(trial.trial).value()) {
      EXPECT_GE(report.time_ms, reported) << trial.trial;
      reported = report.time_ms;
    }
  }
  EXPECT_GT(created, 150'000);
  EXPECT_LE(created, events_ * 1000);
}

TEST(ExperimentClock, WallClockJumps_BudgetCountsTime) {
  std::chrono::seconds monotonic{7};
  std::int64_t wall_ms = 1'800'000'000'000;
  const ExperimentClock clock(
      5, {.monotonic = [&] { return monotonic; }, .wall_ms = [&] { return wall_ms; }});
  const auto budget = make_timeout_stopper(100);
  EXPECT_FALSE(budget->stops_all(clock.seconds()));
  wall_ms += 315'576'000'000;  // ten years
  monotonic += std::chrono::seconds(50);
  EXPECT_FALSE(budget->stops_all(clock.seconds()));
  wall_ms = 0;
  monotonic += std::chrono::seconds(49);
  EXPECT_FALSE(budget->stops_all(clock.seconds()));
  EXPECT_EQ(clock.seconds(), 104);
  EXPECT_EQ(clock.wall_ms(), 1'800'000'099'000);
  monotonic += std::chrono::seconds(2);
  EXPECT_TRUE(budget->stops_all(clock.seconds()));
}

TEST_F(RecorderTest, StoresOutcomeOfEveryFinishedTrial) {
  start({.events = 10});
  play(300);
  log_->flush();
  auto reader = read();
  std::int64_t finished = 0;
  const auto done = reader.each_outcome(
      [&](const StoredTrial& trial, const TrialOutcome& outcome) -> Result<void> {
        if (!is_finished(trial.state)) return {};
        ++finished;
        EXPECT_TRUE(outcome.metrics.find("training_iteration")->is_integer());
        EXPECT_DOUBLE_EQ(outcome.metrics.find("loss")->number(), *trial.last);
        return {};
      });
  ASSERT_TRUE(done.ok());
  EXPECT_GT(finished, 30);
}

TEST_F(RecorderTest, ForeignSnapshot_IsRefused) {
  start({.events = 10});
  play(95);
  log_->flush();
  const auto refused =
      recorder_->restore({StoredSnapshot{.number = 90, .core = "foreign", .searcher = ""}});
  EXPECT_THAT(refused.error().text, HasSubstr("load snapshot 90: malformed bytes"));
}

// A resumed experiment does not store the reasons of replayed decisions again.
TEST_F(RecorderTest, StoresReasonOfEachStop) {
  start({.events = 10});
  play(40);
  resume();
  play(1'000);
  log_->flush();
  auto reader = ExperimentReader::open(location_).value();
  int stopped = 0;
  for (TrialNumber trial = 0; trial < static_cast<TrialNumber>(core_->trials().size()); ++trial) {
    const auto decisions = reader.decisions(trial).value();
    ASSERT_FALSE(decisions.empty());
    std::set<double> milestones;
    for (const StoredDecision& each : decisions) {
      EXPECT_TRUE(milestones.insert(each.note.milestone.value()).second) << "trial " << trial;
      EXPECT_EQ(each.attempt, 1);
      EXPECT_EQ(each.note.milestone, static_cast<double>(each.step));
    }
    const DecisionNote& last = decisions.back().note;
    EXPECT_EQ(last.outcome, DecisionNote::Outcome::stopped);
    if (!last.cutoff) continue;
    ++stopped;
    EXPECT_GT(*last.value, *last.cutoff);
    EXPECT_GT(last.compared, 0);
  }
  EXPECT_GT(stopped, 20);
}

}  // namespace
}  // namespace mobula::internal::tune
