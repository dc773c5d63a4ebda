#include "tune/core/stoppers/trial_stopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/core/searchers/search_wrappers.h"
#include "tune/core/searchers/tpe/parzen_search.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

TEST(LimitStopper, StopsAtLimitForBothModes) {
  auto stopper = make_limit_stopper({{"loss", 2}, {"step", 10}});
  EXPECT_FALSE(stopper->stops(0, {{"loss", 1}, {"step", 9}}).value());
  EXPECT_TRUE(stopper->stops(0, {{"loss", 2}, {"step", 1}}).value());
  EXPECT_TRUE(stopper->stops(0, {{"loss", 1}, {"step", 10}}).value());
}

TEST(LimitStopper, NamesTrialAndMissingMetric) {
  auto stopper = make_limit_stopper({{"loss", 2}});
  const auto stopped = stopper->stops(4, {{"step", 1}});
  ASSERT_FALSE(stopped.ok());
  EXPECT_THAT(stopped.error().text, HasSubstr("report of trial 4: no metric 'loss'"));
}

TEST(TimeoutStopper, IgnoresTimeBetweenStopAndResume) {
  auto stopper = make_timeout_stopper(10);
  EXPECT_FALSE(stopper->stops_all(100));  // begins the measurement
  EXPECT_FALSE(stopper->stops_all(109));
  auto copy = make_timeout_stopper(10);
  ASSERT_TRUE(copy->load(stopper->save()).ok());
  copy->resumed();
  EXPECT_FALSE(copy->stops_all(5000));
  EXPECT_TRUE(copy->stops_all(5001));
}

TEST(CombinedStopper, LaterCountersDoNotAdvance) {
  std::vector<TrialStopperPtr> parts;
  bool first = true;
  parts.push_back(make_function_stopper([&](TrialNumber, const Config&) { return first; }));
  parts.push_back(make_iteration_stopper(2).value());
  auto stopper = make_combined_stopper(std::move(parts));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(stopper->stops(0, {}).value());
  first = false;
  EXPECT_FALSE(stopper->stops(0, {}).value());
  EXPECT_TRUE(stopper->stops(0, {}).value());
}

TEST(Stoppers, NameReasonOfLastStop) {
  std::vector<TrialStopperPtr> parts;
  parts.push_back(make_limit_stopper({{"loss", 2}, {"step", 10}}));
  parts.push_back(make_iteration_stopper(2).value());
  auto stopper = make_combined_stopper(std::move(parts));
  EXPECT_TRUE(stopper->stops(0, {{"loss", 1}, {"step", 11}}).value());
  EXPECT_EQ(stopper->reason(), "step 11 reaches its limit 10 of RunOptions::stop");
  EXPECT_TRUE(stopper->stops(0, {{"loss", 2.5}, {"step", 11}}).value());
  EXPECT_EQ(stopper->reason(), "loss 2.5 reaches its limit 2 of RunOptions::stop");
  EXPECT_FALSE(stopper->stops(1, {{"loss", 1}, {"step", 1}}).value());
  EXPECT_TRUE(stopper->stops(1, {{"loss", 1}, {"step", 2}}).value());
  EXPECT_EQ(stopper->reason(), "MaximumIterationStopper allows 2 reports");
}

TEST(Stoppers, RejectOptionsAndNameThem) {
  EXPECT_FALSE(make_iteration_stopper(0).ok());
  EXPECT_THAT(make_experiment_plateau_stopper({.metric = "m", .top = 1}).error().text,
              HasSubstr("::top: 1"));
  EXPECT_THAT(make_trial_plateau_stopper({.metric = "m", .num_results = 0}).error().text,
              HasSubstr("::num_results: 0"));
}

TEST(SearchWrappers, LimitRepeatedSuggestionsOfTpe) {
  const auto space = SearchSpace::make(Space{{"x", uniform(0, 1)}}).value();
  auto repeated = make_repeater(ParzenSearch::make({}, space).value(), {.repeat = 2}).value();
  auto limited = make_concurrency_limiter(std::move(repeated), {.max_concurrent = 2}).value();
  NumpyRandom random(1);
  const auto first = limited->ask(0, {random, random}).value();
  const auto second = limited->ask(1, {random, random}).value();
  EXPECT_EQ(first.config.get("x"), second.config.get("x"));
  EXPECT_EQ(second.config.get("__trial_index__"), Value(1));
  EXPECT_EQ(limited->ask(2, {random, random}).value().kind, Suggestion::Kind::later);
  limited->tell(0, {.value = 1});
  EXPECT_EQ(limited->ask(2, {random, random}).value().kind, Suggestion::Kind::config);
}

class RecordingEnds final : public SearchAlgorithm {
 public:
  explicit RecordingEnds(std::vector<TrialEnd>& ends) : ends_(ends) {}
  Result<Suggestion> ask(TrialNumber /*trial*/, SearchRandom /*random*/) override {
    return Suggestion{.kind = Suggestion::Kind::config};
  }
  void tell(TrialNumber /*trial*/, const TrialEnd& end) override { ends_.push_back(end); }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view /*state*/) override { return {}; }

 private:
  std::vector<TrialEnd>& ends_;
};

TEST(SearchWrappers, RepeaterPassesMeansOfAllObjectives) {
  std::vector<TrialEnd> ends;
  const auto repeater = make_repeater(std::make_unique<RecordingEnds>(ends), {.repeat = 3}).value();
  NumpyRandom random(1);
  for (TrialNumber trial = 0; trial < 3; ++trial)
    ASSERT_TRUE(repeater->ask(trial, {random, random}).ok());
  repeater->tell(0, {.constraints = {-1}, .values = {1, 10}});
  // A loaded repeater continues.
  const std::string state = repeater->save();
  const auto loaded = make_repeater(std::make_unique<RecordingEnds>(ends), {.repeat = 3}).value();
  ASSERT_TRUE(loaded->load(state).ok());
  loaded->tell(1, {.constraints = {2}, .values = {3, 30}});
  EXPECT_TRUE(ends.empty());
  loaded->tell(2, {.state = EndState::failed});
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].state, EndState::complete);
  EXPECT_EQ(ends[0].values, (std::vector<double>{2, 20}));
  EXPECT_EQ(ends[0].constraints, std::vector<double>{0.5});
}

Suggestion::Kind asked(SearchAlgorithm& searcher, TrialNumber trial) {
  NumpyRandom random(1);
  return searcher.ask(trial, {random, random}).value().kind;
}

// A limiter of batches of two with the trials 0 and 1.
SearchAlgorithmPtr batches_of_two(std::vector<TrialEnd>& ends) {
  auto made = make_concurrency_limiter(std::make_unique<RecordingEnds>(ends),
                                       {.max_concurrent = 2, .batch = true})
                  .value();
  EXPECT_EQ(asked(*made, 0), Suggestion::Kind::config);
  EXPECT_EQ(asked(*made, 1), Suggestion::Kind::config);
  EXPECT_EQ(asked(*made, 2), Suggestion::Kind::later);
  return made;
}

TEST(SearchWrappers, PausedTrialReleasesItsSlot) {
  std::vector<TrialEnd> ends;
  const auto limited = batches_of_two(ends);
  limited->tell(0, {.value = 5});
  EXPECT_TRUE(ends.empty());
  limited->paused(1);
  // The batch has no other trial.
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].value, 5);
  EXPECT_EQ(asked(*limited, 2), Suggestion::Kind::config);
  limited->resumed(1);
  EXPECT_EQ(asked(*limited, 3), Suggestion::Kind::later);
  // A loaded limiter continues.
  const auto loaded = make_concurrency_limiter(std::make_unique<RecordingEnds>(ends),
                                               {.max_concurrent = 2, .batch = true})
                          .value();
  ASSERT_TRUE(loaded->load(limited->save()).ok());
  loaded->paused(1);
  loaded->tell(2, {.value = 6});
  ASSERT_EQ(ends.size(), 2U);
  loaded->tell(1, {.value = 7});  // ends while it is paused
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[2].value, 7);
}

TEST(SearchWrappers, StalledTrialsReleaseTheirSlots) {
  std::vector<TrialEnd> ends;
  const auto limited = batches_of_two(ends);
  limited->tell(1, {.value = 5});
  limited->stalled();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(asked(*limited, 2), Suggestion::Kind::config);
  EXPECT_EQ(asked(*limited, 3), Suggestion::Kind::config);
  EXPECT_EQ(asked(*limited, 4), Suggestion::Kind::later);
}

TEST(SearchWrappers, RejectOptionsAndNameThem) {
  EXPECT_THAT(make_concurrency_limiter(nullptr, {.max_concurrent = 0}).error().text,
              HasSubstr("::max_concurrent: 0"));
  EXPECT_THAT(make_repeater(nullptr, {.repeat = 0}).error().text, HasSubstr("::repeat: 0"));
}

}  // namespace
}  // namespace mobula::internal::tune
