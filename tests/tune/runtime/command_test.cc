// Programs as trials.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

tune::Command shell(const std::string& script) { return {.argv = {"/bin/sh", "-c", script}}; }

TEST(TuneCommand, PassesParametersAndTakesReports) {
  auto options = quiet_options({{"x", tune::grid_search({1, 2})},
                                {"opt", tune::choice({"sgd"})},
                                {"beta", tune::uniform(0, 1).when("opt", "adam")}},
                               1);
  const std::string script = R"(
echo '{"loss": '$1'}' >&$MOBULA_TUNE_FD
read answer <&$MOBULA_TUNE_FD
cat >&$MOBULA_TUNE_FD <<END
{"loss": $1.5, "answer": "$answer", "count": $#, "text": "$2", "kind": "$KIND", "beta": "$BETA"}
END
grep -q '"opt":"sgd"' $MOBULA_TUNE_CONFIG
)";
  const tune::Command command{
      .argv = {"/bin/sh", "-c", script, "name", "{x}", "--beta={beta}", "${home} {{x}} {}"},
      .env = {{"KIND", "a-{opt}"}, {"BETA", "{beta}"}}};
  const auto results = tune::run(command, options);
  ASSERT_EQ(results.all().size(), 2U);
  for (const auto& result : results.all()) {
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("loss").number(),
              static_cast<double>(result.config.integer("x")) + 0.5);
    EXPECT_EQ(result.metrics.at("answer").text(), "continue");
    EXPECT_EQ(result.metrics.at("count").integer(), 2);
    EXPECT_EQ(result.metrics.at("text").text(), "${home} {x} {}");
    EXPECT_EQ(result.metrics.at("kind").text(), "a-sgd");
    EXPECT_EQ(result.metrics.at("beta").text(), "");
    EXPECT_EQ(result.metrics.at("training_iteration").integer(), 2);
  }
}

TEST(TuneCommand, TakesKindsOfMetrics) {
  auto options = quiet_options({{"x", tune::constant(7)}, {"opt", tune::constant("sgd")}}, 1);
  auto command = shell(
      "echo '{\"loss\": '$X', \"deep\": {\"n\": 2}, \"limit\": -Infinity, \"text\": \"NaN \\\" "
      "b\", "
      "\"ok\": true, \"none\": NaN}' >&$MOBULA_TUNE_FD");
  command.env = {{"X", "{x}"}};
  const auto results = tune::run(command, options);
  ASSERT_EQ(results.all()[0].error, "");
  const auto& metrics = results.all()[0].metrics;
  EXPECT_EQ(metrics.at("loss").integer(), 7);
  EXPECT_EQ(metrics.at("deep/n").integer(), 2);
  EXPECT_EQ(metrics.at("limit").number(), -INFINITY);
  EXPECT_EQ(metrics.at("text").text(), "NaN \" b");
  EXPECT_TRUE(metrics.at("ok").truth());
  EXPECT_TRUE(std::isnan(metrics.at("none").number()));
}

TEST(TuneCommand, NamesFaultOfProgramAndGoesOn) {
  const std::map<std::string, std::string> faults{
      {"exit 3", "program /bin/sh: exit code 3"},
      {"echo first >&2; echo no such file >&2; exit 1", "exit code 1: no such file"},
      {"kill -9 $$", "terminated by SIGKILL"},
      {"true", "exit code 0 without a report"},
      {"echo loss=1 >&$MOBULA_TUNE_FD",
       "report 1: expected a JSON object in one line, got 'loss=1'"},
      {"printf '\\000\\377\\n' >&$MOBULA_TUNE_FD", "got '\\x00\\xff'"},
      {"echo '{\"loss\": [1]}' >&$MOBULA_TUNE_FD", "report 1: metric 'loss' is an array"},
      {"echo '{\"acc\": 1}' >&$MOBULA_TUNE_FD", "metric 'loss' is missing; the report has: acc"},
      {"head -c 1100000 /dev/zero >&$MOBULA_TUNE_FD", "without the end of a line"},
      {"head -c 100000 /dev/urandom >/dev/null; printf '\\000\\377'; printf '\\001' >&2;"
       "sleep 100 & printf '{\"loss\": 1}' >&$MOBULA_TUNE_FD",
       ""}};
  std::vector<tune::Value> scripts;
  for (const auto& [script, error] : faults) scripts.emplace_back(script);
  auto options = quiet_options({{"script", tune::grid_search(scripts)}}, 1);
  const auto results = tune::run(tune::Command{.argv = {"/bin/sh", "-c", "{script}"}}, options);
  ASSERT_EQ(results.all().size(), faults.size());
  for (const auto& result : results.all()) {
    const std::string expected = faults.at(result.config.text("script"));
    if (expected.empty()) {
      EXPECT_EQ(result.error, "");
    }
    EXPECT_NE(result.error.find(expected), std::string::npos) << result.error;
    if (!expected.empty()) {
      EXPECT_TRUE(result.error.starts_with("trial " + std::to_string(result.trial) + ": "))
          << result.error;
    }
  }
}

TEST(TuneCommand, UnknownProgramFailsTrial) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  const auto results = tune::run(tune::Command{.argv = {"no-such-program"}}, options);
  EXPECT_NE(results.all()[0].error.find(
                "trial 0: start program no-such-program: No such file or directory"),
            std::string::npos)
      << results.all()[0].error;
}

TEST(TuneCommand, RefusesUnknownParameter) {
  const auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  const auto refusal = [&](const tune::Command& command) -> std::string {
    try {
      static_cast<void>(tune::run(command, options));
    } catch (const InvalidRequestError& error) {
      return error.field() + " | " + error.what();
    }
    return "";
  };
  EXPECT_TRUE(refusal({}).starts_with("Command::argv"));
  EXPECT_NE(refusal({.argv = {"true", "--lr={lr}"}})
                .find("'--lr={lr}': no parameter 'lr' in the space, which has: x"),
            std::string::npos);
  EXPECT_TRUE(refusal({.argv = {"true"}, .env = {{"LR", "{lr}"}}}).starts_with("Command::env"));
}

// A stopped program gets a line, SIGTERM, and its group ends.
TEST(TuneCommand, StopEndsWholeProcessGroup) {
  auto options = quiet_options({{"x", tune::grid_search({1, 2})}}, 1);
  options.stop = {{"training_iteration", 2}};
  auto command = shell(
      "trap 'echo stopped >$MOBULA_TUNE_DIRECTORY/trapped; exit 0' TERM; sleep 600 & echo $! "
      ">$MOBULA_TUNE_DIRECTORY/child; while true; do echo '{\"loss\": 1}' >&$MOBULA_TUNE_FD; "
      "read answer <&$MOBULA_TUNE_FD; done");
  const auto results = tune::run(command, options);
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("training_iteration").integer(), 2);
    const std::string directory =
        options.storage_path + "/" + options.name + "/trials/00000" + std::to_string(result.trial);
    EXPECT_TRUE(fs::exists(directory + "/trapped"));
    int child = 0;
    std::ifstream(directory + "/child") >> child;
    ASSERT_GT(child, 0);
    // After SIGKILL, init reaps it.
    for (int i = 0; i < 1'000 && ::kill(child, 0) == 0; ++i) ::usleep(10'000);
    EXPECT_NE(::kill(child, 0), 0);
  }
}

// A program that does not report is stopped between two reports.
TEST(TuneCommand, BudgetStopsSilentProgram) {
  auto options = quiet_options({{"x", tune::constant(1)}}, 1);
  options.time_budget = std::chrono::milliseconds(300);
  const auto results = tune::run(tune::Command{.argv = {"sleep", "600"}}, options);
  EXPECT_EQ(results.all()[0].error, "");
  EXPECT_EQ(results.all()[0].attempts, 1);
}

TEST(TuneCommand, ContinuesFromCheckpointAfterFailure) {
  auto options = quiet_options({{"x", tune::constant(1)}}, 2);
  options.failure.max_failures = 1;
  auto command = shell(
      "if [ -n \"$MOBULA_TUNE_CHECKPOINT\" ]; then read n <$MOBULA_TUNE_CHECKPOINT/n; "
      "echo '{\"loss\": '$n', \"attempt\": '$MOBULA_TUNE_ATTEMPT'}' >&$MOBULA_TUNE_FD; exit 0; fi; "
      "mkdir -p $MOBULA_TUNE_DIRECTORY/state; echo 5 >$MOBULA_TUNE_DIRECTORY/state/n; "
      "echo '{\"loss\": 9, \"checkpoint\": \"state\"}' >&$MOBULA_TUNE_FD; "
      "read answer <&$MOBULA_TUNE_FD; exit 4");
  const auto results = tune::run(command, options);
  for (const auto& result : results.all()) {
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("loss").integer(), 5);
    EXPECT_EQ(result.metrics.at("attempt").integer(), 2);
    EXPECT_EQ(result.metrics.at("training_iteration").integer(), 2);
  }
}

TEST(TuneCommand, TakesReportsOfStandardOutput) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 2);
  tune::Command command{.argv = {"printf", "begin\n{\"loss\": {x}}\n{not json\n{\"loss\": 0}"},
                        .reports_on_stdout = true};
  const auto results = tune::run(command, options);
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("training_iteration").integer(), 2);
    EXPECT_EQ(result.metrics.at("loss").integer(), 0);
  }
}

}  // namespace
}  // namespace mobula::testing
