// Bad input: each fault names the trial and the field, and the other trials continue.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

// One trial misbehaves; the others report.
void misbehaving(const tune::Config& config) {
  const std::string fault = config.text("fault");
  if (fault == "throws") throw std::runtime_error("boom in user code");
  if (fault == "throws int") throw 5;
  if (fault == "aborts") std::abort();
  if (fault == "exits") ::_exit(3);
  if (fault == "silent") return;
  if (fault == "other metric") return tune::report({{"acc", 1}});
  if (fault == "text") return tune::report({{"loss", "low"}});
  if (fault == "nan") return tune::report({{"loss", std::nan("")}});
  if (fault == "binary") ::write(STDOUT_FILENO, "\x00\xff\x01\n", 4);
  if (fault == "leaks") static_cast<void>(::malloc(1 << 20));
  if (fault == "forks" && ::fork() == 0) ::_exit(0);
  if (fault == "swallows") {
    try {
      for (;;) tune::report({{"loss", 1}});
    } catch (...) {
      return;
    }
  }
  tune::report({{"loss", 1}});
}

TEST(TuneFaults, NamesTrialAndFieldAndGoesOn) {
  auto options = quiet_options(
      {{"fault",
        tune::grid_search({"throws", "throws int", "aborts", "exits", "silent", "other metric",
                           "text", "nan", "binary", "leaks", "forks", "swallows", "none"})}},
      1);
  options.stop = {{"training_iteration", 3}};
  const std::vector<std::string> expected{
      "trial 0: boom in user code",
      "trial 1: an exception that is not derived",
      " was killed by signal 6 (Aborted)",
      " exited with code 3 before the function returned",
      "trial 4: the function returned without a report",
      "trial 5: report 1: metric 'loss' is missing; the report has: acc",
      "trial 6: report 1: metric 'loss' is the text 'low'"};
  const auto results = tune::run<misbehaving>(options);
  ASSERT_EQ(results.all().size(), 13U);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NE(results.all()[i].error.find(expected[i]), std::string::npos)
        << i << ": " << results.all()[i].error;
  ASSERT_EQ(results.all()[7].warnings.size(), 1U);
  EXPECT_NE(results.all()[7].warnings[0].find("trial 7: report 1: metric 'loss' is NaN"),
            std::string::npos);
  for (std::size_t i = 7; i < 13; ++i) EXPECT_EQ(results.all()[i].error, "") << i;
  EXPECT_EQ(results.best().metrics.at("loss").number(), 1);
}

// A child of the trial must not report in its place.
void forking(const tune::Config& config) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      tune::report({{"loss", -1}});
    } catch (const InvalidRequestError&) {
      code = 7;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  tune::report({{"loss", config.number("x")}, {"code", WEXITSTATUS(status)}});
}

TEST(TuneFaults, ForkedProcessCannotReport) {
  const auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 2);
  const auto results = tune::run<forking>(options);
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("code").integer(), 7);
    EXPECT_EQ(result.metrics.at("training_iteration").integer(), 1);
  }
}

void fails_once(const tune::Config& config) {
  const bool again = tune::get_checkpoint().has_value();
  fs::create_directories(tune::get_context().directory + "/state");
  tune::report({{"loss", config.number("x")}, {"again", again}}, {.checkpoint = "state"});
  if (!again) throw std::runtime_error("first attempt");
}

TEST(TuneFaults, RepeatsFailedTrialFromCheckpoint) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 2);
  options.failure.max_failures = 1;
  const auto results = tune::run<fails_once>(options);
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.attempts, 2);
    EXPECT_TRUE(result.metrics.at("again").truth());
    EXPECT_EQ(result.metrics.at("training_iteration").integer(), 2);
  }
}

void aborts_once(const tune::Config& config) {
  if (tune::get_context().attempt == 1) std::abort();
  tune::report({{"loss", config.number("x")}});
}

TEST(TuneFaults, ProcessThatCrashed_IsNotReused) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  options.reuse_actors = tune::ReuseActors::always;
  options.failure.max_failures = 1;
  const auto results = tune::run<aborts_once>(options);
  EXPECT_EQ(results.all()[0].error, "");
  EXPECT_EQ(results.all()[0].attempts, 2);
}

void fine(const tune::Config& config) { tune::report({{"loss", config.number("x")}}); }

std::string refusal(const tune::RunOptions& options) {
  try {
    static_cast<void>(tune::run<fine>(options));
  } catch (const InvalidRequestError& error) {
    return error.field() + " | " + error.what();
  }
  return "";
}

TEST(TuneFaults, RefusesBadOptions) {
  const auto valid = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  auto with = [&](auto change) {
    tune::RunOptions options = valid;
    change(options);
    return refusal(options);
  };
  EXPECT_TRUE(with([](auto& o) { o.space = {}; }).starts_with("RunOptions::space"));
  const std::string duplicate = with([](auto& o) {
    o.space = {{"x", tune::uniform(0, 1)}, {"x", tune::uniform(0, 2)}};
  });
  EXPECT_NE(duplicate.find("'x'"), std::string::npos) << duplicate;
  EXPECT_TRUE(with([](auto& o) { o.num_samples = 0; }).starts_with("RunOptions::num_samples"));
  EXPECT_TRUE(with([](auto& o) { o.name = "a/b"; }).starts_with("RunOptions::name"));
  EXPECT_TRUE(with([](auto& o) {
                o.resources_per_trial = {{"cpu", -1}};
              }).starts_with("resources_per_trial"));
  EXPECT_TRUE(with([](auto& o) {
                o.resources_per_trial = {{"cpu", 0}};
              }).starts_with("resources_per_trial"));
  EXPECT_TRUE(
      with([](auto& o) {
        o.resources_per_trial = {{"cpu", 1e18}};
      })
          .starts_with(
              "resources_per_trial | resources_per_trial: the amount of cpu is 1000000000000"));
  EXPECT_TRUE(
      with([](auto& o) {
        o.resources_per_trial = {{"cpu", 1e-5}};
      }).starts_with("resources_per_trial | resources_per_trial: the amount of cpu is too"));
  EXPECT_TRUE(
      with([](auto& o) {
        o.resources_per_trial = {{"cpu", 1}, {"CPU", 2}};
      }).starts_with("resources_per_trial | resources_per_trial: CPU is in one bundle twice"));
  EXPECT_TRUE(with([](auto& o) {
                o.callbacks = {nullptr};
              }).starts_with("RunOptions::callbacks | RunOptions::callbacks: callback 0 is null"));
  EXPECT_TRUE(with([](auto& o) {
                o.stop = {{"loss", std::nan("")}};
              }).starts_with("RunOptions::stop | RunOptions::stop: the limit of 'loss' is nan"));
  EXPECT_TRUE(with([](auto& o) {
                o.env = {{"CUDA_VISIBLE_DEVICES", "0"}};
              }).starts_with("RunOptions::env | RunOptions::env: CUDA_VISIBLE_DEVICES is set by"));
  EXPECT_TRUE(
      with([](auto& o) { o.resume = tune::Resume::required; }).starts_with("RunOptions::resume"));
  EXPECT_TRUE(with([](auto& o) {
                o.metric = "";
                o.scheduler = tune::AsyncHyperBandScheduler();
              }).starts_with("RunOptions::metric"));
  EXPECT_TRUE(with([](auto& o) {
                o.search_alg = tune::TPESearch();
                o.scheduler = tune::PopulationBasedTraining(
                    {.hyperparam_mutations = {{"x", tune::uniform(0, 1)}}});
              }).starts_with("RunOptions::search_alg"));
  EXPECT_TRUE(with([](auto& o) {
                o.scheduler = tune::AsyncHyperBandScheduler({.reduction_factor = 1});
              }).starts_with("RunOptions::scheduler"));
  EXPECT_TRUE(with([](auto& o) {
                o.space = {{"x", tune::uniform(1, 0)}};
              }).starts_with("RunOptions::space"));
  EXPECT_THROW(tune::report({{"loss", 1}}), InvalidRequestError);
}

TEST(TuneFaults, RefusesNameOfExistingExperiment) {
  const auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  static_cast<void>(tune::run<fine>(options));
  EXPECT_TRUE(refusal(options).starts_with("RunOptions::name"));
}

void endless(const tune::Config& config) {
  for (;;) tune::report({{"loss", config.number("x")}}, {.wait = false});
}

TEST(TuneFaults, StopsExperimentAtBudget) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 100);
  options.time_budget = std::chrono::milliseconds(300);
  options.max_concurrent_trials = 2;
  const auto results = tune::run<endless>(options);
  int reported = 0;
  for (const auto& result : results.all()) reported += result.metrics.empty() ? 0 : 1;
  EXPECT_EQ(reported, 2);
}

struct Recorder final : tune::Callback {
  void on_trial_start(std::int64_t /*trial*/, const tune::Config& /*config*/) override { ++starts; }
  void on_trial_complete(std::int64_t /*trial*/, const tune::Metrics& /*last*/) override {
    ++completions;
    throw std::runtime_error("a callback that throws");
  }
  void on_experiment_end(const tune::ResultGrid& results) override { ends = results.all().size(); }
  int starts = 0, completions = 0;
  std::size_t ends = 0;
};

TEST(TuneFaults, CallsCallbacksThatThrow) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 3);
  const auto recorder = std::make_shared<Recorder>();
  options.callbacks = {recorder};
  static_cast<void>(tune::run<fine>(options));
  EXPECT_EQ(recorder->starts, 3);
  EXPECT_EQ(recorder->completions, 3);
  EXPECT_EQ(recorder->ends, 3U);
}

// The runtime's text of the error contains the name of the function.
void leaves_node(const tune::Config& /*config*/) { ::_exit(3); }

TEST(TuneFaults, FunctionNamedNodeCrashes_Counts) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  options.failure.max_failures = 1;
  const auto results = tune::run<leaves_node>(options);
  EXPECT_EQ(results.all()[0].attempts, 2);
  EXPECT_NE(results.all()[0].error.find("exited with code 3"), std::string::npos);
}

}  // namespace
}  // namespace mobula::testing
