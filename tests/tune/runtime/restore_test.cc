// Tuner::restore, and the refusal of experiments that differ.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

// The second trial fails after a checkpoint until the file "repaired" exists.
void repaired_later(const tune::Config& config) {
  const auto context = tune::get_context();
  const bool again = tune::get_checkpoint().has_value();
  fs::create_directories(context.directory + "/state");
  tune::report({{"loss", config.number("x")}, {"again", again}}, {.checkpoint = "state"});
  const fs::path experiment = fs::path(context.directory).parent_path().parent_path();
  if (context.trial == 1 && !fs::exists(experiment / "repaired"))
    throw std::runtime_error("broken");
  tune::report({{"loss", config.number("x") / 2}, {"again", again}});
}

void another(const tune::Config& config) { tune::report({{"loss", config.number("x")}}); }

std::string location_of(const tune::RunOptions& options) {
  return options.storage_path + "/" + options.name;
}

template <auto F>
std::string restore_refusal(const tune::RunOptions& begun, const tune::RunOptions& options) {
  try {
    static_cast<void>(tune::Tuner<F>::restore(location_of(begun), options).fit());
  } catch (const InvalidRequestError& error) {
    return error.what();
  }
  return "";
}

TEST(TuneRestore, RepeatsFailedTrials) {
  for (const bool from_beginning : {false, true}) {
    auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 3);
    const auto broken = tune::Tuner<repaired_later>(options).fit();
    EXPECT_EQ(broken.all()[1].error, "trial 1: broken");
    std::ofstream(location_of(options) + "/repaired").put('x');
    const auto unchanged =
        tune::Tuner<repaired_later>::restore(location_of(options), options).fit();
    EXPECT_EQ(unchanged.all()[1].error, "trial 1: broken");
    auto elsewhere = options;
    elsewhere.storage_path = "/nowhere";
    const auto results = tune::Tuner<repaired_later>::restore(
                             location_of(options), elsewhere,
                             {.resume_errored = !from_beginning, .restart_errored = from_beginning})
                             .fit();
    ASSERT_EQ(results.all().size(), 3U);
    for (const auto& result : results.all()) {
      EXPECT_EQ(result.error, "");
      const bool repeated = result.trial == 1;
      EXPECT_EQ(result.attempts, repeated ? 2 : 1);
      EXPECT_EQ(result.metrics.at("again").truth(), repeated && !from_beginning);
      EXPECT_EQ(result.metrics.at("training_iteration").integer(),
                repeated && !from_beginning ? 3 : 2);
    }
  }
}

TEST(TuneRestore, NamesDifference) {
  const auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 1);
  static_cast<void>(tune::run<another>(options));
  auto changed = options;
  changed.space = {{"x", tune::uniform(1, 3)}};
  EXPECT_NE(restore_refusal<another>(options, changed)
                .find("space: parameter 'x' was {\"kind\":\"uniform\",\"low\":1.0,\"high\":2.0}"),
            std::string::npos)
      << restore_refusal<another>(options, changed);
  changed.space = {{"x", tune::uniform(1, 2)}, {"y", tune::uniform(1, 2)}};
  EXPECT_NE(restore_refusal<another>(options, changed).find("parameter 'y' was absent"),
            std::string::npos);
  EXPECT_NE(restore_refusal<repaired_later>(options, options).find("trainable: was "),
            std::string::npos);
  changed = options;
  changed.num_samples = 2;
  EXPECT_NE(restore_refusal<another>(options, changed).find("num_samples: was 1 and is 2"),
            std::string::npos);
  changed = options;
  changed.scheduler = tune::AsyncHyperBandScheduler();
  EXPECT_NE(restore_refusal<another>(options, changed).find("scheduler: was \"FIFOScheduler\""),
            std::string::npos);
  auto absent = options;
  absent.name = "absent";
  EXPECT_NE(restore_refusal<another>(absent, options).find("does not exist"), std::string::npos);
  EXPECT_EQ(restore_refusal<another>(options, options), "");
}

// Ends the driver's run in the middle.
struct Breaking final : tune::Scheduler {
  explicit Breaking(bool breaks) : breaks_(breaks) {}
  tune::Decision on_trial_result(std::int64_t /*trial*/, const tune::Metrics&) override {
    return tune::Decision::proceed;
  }
  void on_trial_complete(std::int64_t trial, const tune::Metrics& /*last*/) override {
    if (breaks_ && trial == 1) throw std::runtime_error("the driver breaks");
  }

 private:
  bool breaks_;
};

TEST(TuneRestore, EndsUnfinishedTrials) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 2);
  options.max_concurrent_trials = 1;
  options.scheduler = std::make_shared<Breaking>(true);
  EXPECT_THROW(static_cast<void>(tune::run<another>(options)), std::runtime_error);
  options.scheduler = std::make_shared<Breaking>(false);
  const auto results =
      tune::Tuner<another>::restore(location_of(options), options, {.resume_unfinished = false})
          .fit();
  ASSERT_EQ(results.all().size(), 2U);
  EXPECT_EQ(results.all()[1].error, "");
  EXPECT_EQ(results.all()[1].attempts, 1);
}

}  // namespace
}  // namespace mobula::testing
