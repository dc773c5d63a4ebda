#include "cli/command_line.h"

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <fstream>

#include "cli/build_kind.h"

namespace mobula::internal::cli {
namespace {

using ::testing::HasSubstr;

Parsed parse(std::vector<std::string> words) {
  words.insert(words.begin(), "mobula");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return parse_command_line(static_cast<int>(words.size()), argv.data());
}

TEST(CommandLine, RejectsSeveralWaysToJoin) {
  EXPECT_EQ(parse({"start", "--join", "mobula-1-x"}).line->start.join, "mobula-1-x");
  for (const auto& wrong : {std::vector<std::string>{"start"},
                            {"start", "--head", "--join", "x"},
                            {"start", "--address", "a:1", "--join", "x"},
                            {"start", "--address", "a:1", "--http", "8000"}}) {
    EXPECT_EQ(parse(wrong).exit, 2) << wrong.back();
  }
  EXPECT_EQ(parse({"start", "--head", "--http", "8000"}).line->start.http, "127.0.0.1:8000");
  EXPECT_EQ(parse({"start", "--head", "--http", "[::1]:0"}).line->start.http, "[::1]:0");
  EXPECT_EQ(parse({"start", "--head", "--http", "off"}).line->start.http, "");
  EXPECT_TRUE(parse({"start", "--head", "--http", "10.0.0.1:80", "--http-unencrypted"})
                  .line->start.http_unencrypted);
  EXPECT_TRUE(parse({"start", "--head", "--http", "off"}).line->start.http_given);
  EXPECT_FALSE(parse({"start", "--head"}).line->start.http_given);
  EXPECT_EQ(parse({"start", "--address", "a:1", "--as-given"}).exit, 2);
  EXPECT_EQ(parse({"start", "--head"}).line->start.http, "");
  EXPECT_EQ(parse({"start", "--head", "--http", "somewhere"}).exit, 2);
  EXPECT_EQ(parse({"start", "--head", "--http", "0", "--http-cert", "a.pem"}).exit, 2);
  EXPECT_EQ(parse({"start", "--head", "--http", "0", "--http-key", "a.pem"}).exit, 2);
  EXPECT_TRUE(parse({"start", "--head", "--http", "0", "--http-cert", "a.pem", "--http-key", "/b"})
                  .line->start.http_cert.ends_with("/a.pem"));
}

TEST(CommandLine, AutoscalerOfHead_HasFileOrIsOff) {
  const auto given = parse({"start", "--head", "--autoscale", "types.yaml"}).line->start;
  EXPECT_TRUE(given.autoscale_given);
  EXPECT_TRUE(given.autoscale.starts_with("/")) << given.autoscale;
  EXPECT_TRUE(given.autoscale.ends_with("/types.yaml")) << given.autoscale;
  const auto off = parse({"start", "--head", "--autoscale", "off"}).line->start;
  EXPECT_TRUE(off.autoscale_given);
  EXPECT_EQ(off.autoscale, "");
  EXPECT_FALSE(parse({"start", "--head"}).line->start.autoscale_given);
  EXPECT_EQ(parse({"start", "--address", "a:1", "--autoscale", "off"}).exit, 2);
}

TEST(CommandLine, TimelineGoesToFileOrReceiver) {
  EXPECT_EQ(parse({"timeline", "--otlp", "http://h:4318"}).line->otlp_url, "http://h:4318");
  EXPECT_TRUE(parse({"timeline", "--otlp", "http://h:4318", "--follow"}).line->follow);
  EXPECT_EQ(parse({"timeline", "--follow"}).exit, 2);
  EXPECT_EQ(parse({"timeline", "--otlp", "http://h", "--output", "a"}).exit, 2);
}

TEST(CommandLine, AcceptsOldAndNewSpellings) {
  for (const char* flag : {"--no-reuse-flags", "--as-given"})
    EXPECT_TRUE(parse({"start", "--head", flag}).line->start.as_given);
  for (const char* flag : {"--for", "--about"})
    EXPECT_EQ(parse({"events", flag, "1234"}).line->events.id, "1234");
  const CommandNode tree = command_tree();
  for (const char* flag : {"--parallel", "--at-once"})
    EXPECT_NE(tree.command("up")->option(flag), nullptr);
}

TEST(CommandLine, NamesUnexpectedWordsInOrderWithSuggestions) {
  EXPECT_EQ(parse({"memory", "x", "--colums", "y"}).text,
            "'x', '--colums' and 'y' are not expected; did you mean '--columns'?; see 'mobula "
            "memory --help'");
  EXPECT_EQ(parse({"get", "node", "id", "--ouput=json"}).text,
            "'--ouput=json' is not expected; did you mean '--output'?; see 'mobula get --help'");
  EXPECT_EQ(parse({"job", "list", "--nothing-like-it", "two"}).text,
            "'--nothing-like-it' and 'two' are not expected; see 'mobula job list --help'");
  EXPECT_EQ(parse({"job", "list", "--nothing-like-it"}).exit, 2);
}

TEST(CommandLine, ParsesTokenRolesAndLifetimes) {
  const auto parsed = parse(
      {"token", "create", "--role", "driver", "--name", "ci", "--expires", "7d", "-o", "json"});
  ASSERT_TRUE(parsed.line) << parsed.text;
  EXPECT_EQ(parsed.line->tokens.action, "create");
  EXPECT_EQ(parsed.line->tokens.role, "driver");
  EXPECT_EQ(parse_life("7d").value(), 604'800'000);
  EXPECT_EQ(parse_life("90s").value(), 90'000);
  for (const char* wrong :
       {"", "7", "d", "-1d", "0s", "1.5h", "7 d", "99999999d", "9223372036854775807d"}) {
    EXPECT_FALSE(parse_life(wrong).ok()) << wrong;
  }
  EXPECT_EQ(parse({"token", "create"}).exit, 2);
  EXPECT_EQ(parse({"token", "create", "--role", "operator"}).exit, 2);
  EXPECT_EQ(parse({"token"}).exit, 2);
  EXPECT_EQ(parse({"token", "revoke"}).exit, 2);
  EXPECT_EQ(parse({"token", "revoke", "ci"}).line->tokens.subject, "ci");
}

TEST(CommandLine, ParsesNodeResources) {
  const auto parsed = parse({"start",
                             "--head",
                             "--num-cpus",
                             "2.5",
                             "--num-gpus",
                             "4",
                             "--gpu-memory",
                             "16GiB",
                             "--gpu-context-memory",
                             "1GiB",
                             "--memory",
                             "1G",
                             "--object-store-memory",
                             "1000",
                             "--resources",
                             "{\"shuttle\": 0.5}",
                             "--accelerator-type",
                             "H100",
                             "--labels",
                             "zone=a,disk=ssd",
                             "--no-worker"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  const StartOptions& start = parsed.line->start;
  EXPECT_TRUE(start.head);
  EXPECT_FALSE(start.worker);
  EXPECT_EQ(start.node.num_cpus->to_string(), "2.5");
  EXPECT_EQ(start.node.num_gpus->to_string(), "4");
  EXPECT_EQ(start.node.gpu_memory_bytes, std::int64_t{16} << 30);
  EXPECT_EQ(start.node.gpu_context_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(start.node.memory_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(start.node.object_store_bytes, 1000);
  EXPECT_EQ(start.node.labels, (Labels{{"zone", "a"}, {"disk", "ssd"}}));
  EXPECT_EQ(start.node.accelerator_type, "H100");
}

TEST(CommandLine, ReadsLabelsFromFileAndFlags) {
  const std::string file = testing::TempDir() + "labels.yaml";
  std::ofstream(file) << "zone: a\n\"rack\": \"7\"\nmobula.io/market-type: spot\n";
  const auto parsed = parse({"start", "--head", "--labels-file", file, "--labels", "zone=b"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  EXPECT_EQ(parsed.line->start.node.labels,
            (Labels{{"mobula.io/market-type", "spot"}, {"rack", "7"}, {"zone", "b"}}));
}

TEST(CommandLine, ParsesMemoryThreshold) {
  const auto parsed =
      parse({"start", "--head", "--memory-threshold", "0.9", "--executor-memory", "2GiB"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  EXPECT_DOUBLE_EQ(parsed.line->start.memory_threshold, 0.9);
  EXPECT_EQ(parsed.line->start.executor_memory_bytes, std::int64_t{2} << 30);
  EXPECT_DOUBLE_EQ(parse({"start", "--head"}).line->start.memory_threshold, 0.95);
  EXPECT_DOUBLE_EQ(
      parse({"start", "--head", "--memory-threshold", "off"}).line->start.memory_threshold, 0);
  for (const char* wrong : {"95", "0", "-1", "high", "0.9x"}) {
    const auto refused = parse({"start", "--head", "--memory-threshold", wrong});
    EXPECT_FALSE(refused.line.has_value()) << wrong;
    EXPECT_THAT(refused.text, HasSubstr("--memory-threshold"));
  }
}

TEST(CommandLine, ParsesSpillingOptions) {
  const auto parsed = parse({"start", "--head", "--object-spilling-directory", "/disk",
                             "--object-spilling-threshold", "0.55"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  EXPECT_EQ(parsed.line->start.node.spill_dir, "/disk");
  EXPECT_EQ(parsed.line->start.node.spill_above_percent, 55);
  const auto defaults = parse({"start", "--head"});
  EXPECT_EQ(defaults.line->start.node.spill_dir, "");
  EXPECT_EQ(defaults.line->start.node.spill_above_percent, 80);
  for (const char* wrong : {"1.5", "-1", "much"}) {
    const auto refused = parse({"start", "--head", "--object-spilling-threshold", wrong});
    EXPECT_FALSE(refused.line.has_value()) << wrong;
    EXPECT_THAT(refused.text, HasSubstr("--object-spilling-threshold"));
  }
}

TEST(CommandLine, ParsesResourcesWithNumberedUnits) {
  const auto resources = [](const std::string& json) {
    return parse({"start", "--head", "--resources", json});
  };
  const auto parsed = resources(
      R"({"fpga": {"total": 4, "unit": true}, "lab": {"total": "0.0001"}, "shuttle": 2, "TPU": 4})");
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  const NodeFlags& node = parsed.line->start.node;
  EXPECT_EQ(node.resources, (ResourceSet{{"fpga", Quantity::whole(4)},
                                         {"lab", Quantity::from_units(1)},
                                         {"shuttle", Quantity::whole(2)},
                                         {"TPU", Quantity::whole(4)}}));
  EXPECT_EQ(node.in_units, std::set<std::string>{"fpga"});
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"({"fpga": {"unit": true}})", "no 'total'"},
      {R"({"fpga": {"total": 4, "unit": 1}})", "true or false"},
      {R"({"fpga": {"total": 4, "units": true}})", "'units'"},
      {R"({"fpga": {"total": 0.00001}})", "0.0001"},
      {R"({"fpga": {"total": "1e3"}})", "decimal"},
      {R"({"fpga": [4]})", "not a number"},
      {R"({"TPU": {"total": 4, "unit": false}})", "numbered units"}};
  for (const auto& [json, why] : wrong) {
    EXPECT_EQ(resources(json).exit, 2) << json;
    EXPECT_THAT(resources(json).text, HasSubstr(why)) << json;
  }
  std::string many;
  for (int i = 0; i < 65; ++i) many += fmt::format("{}\"r{}\": 1", i == 0 ? "{" : ", ", i);
  EXPECT_THAT(resources(many + "}").text, HasSubstr("at most 64"));
  EXPECT_THAT(resources(R"({"a\u001b[2J": 1})").text, HasSubstr("control characters"));
}

TEST(CommandLine, RejectsPredefinedResources) {
  for (const char* json :
       {R"({"CPU": 4})", R"({"gpu": 1})", R"({"Memory": 1})", R"({"gpu_memory": 1})",
        R"({"object_store_memory": 1})", R"({"shuttle": -1})", R"({"shuttle": {"total": -1}})"}) {
    const auto parsed = parse({"start", "--head", "--resources", json});
    EXPECT_EQ(parsed.exit, 2) << json;
    EXPECT_THAT(parsed.text, HasSubstr("--resources")) << json;
  }
}

TEST(CommandLine, SeparatesFileAndFormatOfTimeline) {
  const auto both = parse({"timeline", "--output", "t.json", "-o", "yaml"});
  ASSERT_TRUE(both.line.has_value()) << both.text;
  EXPECT_EQ(both.line->output_file, "t.json");
  EXPECT_EQ(both.line->output, OutputFormat::yaml);
  const auto earlier = parse({"timeline", "-o", "t.json"});
  ASSERT_TRUE(earlier.line.has_value()) << earlier.text;
  EXPECT_EQ(earlier.line->output_file, "t.json") << "as in the release before";
  EXPECT_EQ(earlier.line->output, OutputFormat::table);
  EXPECT_EQ(parse({"timeline", "--output", "t.json", "-o", "poem"}).exit, 2);
  EXPECT_EQ(parse({"timeline", "--output", "-", "-o", "json"}).exit, 2);
}

TEST(CommandLine, PrefersRecordFlagToVariable) {
  ::setenv("MOBULA_RECORD", "/from/environment", 1);
  ::setenv("MOBULA_RECORD_LIMIT", "5000", 1);
  const auto given = parse({"start", "--head", "--record", "relative"});
  const auto fallen_back = parse({"start", "--head"});
  ::setenv("MOBULA_RECORD_LIMIT", "much", 1);
  const auto wrong = parse({"start", "--head"});
  ::unsetenv("MOBULA_RECORD");
  ::unsetenv("MOBULA_RECORD_LIMIT");
  ASSERT_TRUE(given.line.has_value()) << given.text;
  EXPECT_THAT(given.line->start.record.directory, ::testing::MatchesRegex("/.*/relative"));
  EXPECT_EQ(given.line->start.record.limit_bytes, 5000u);
  ASSERT_TRUE(fallen_back.line.has_value()) << fallen_back.text;
  EXPECT_EQ(fallen_back.line->start.record.directory, "/from/environment");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.text, HasSubstr("MOBULA_RECORD_LIMIT"));
  const auto without = parse({"start", "--head"});
  ASSERT_TRUE(without.line.has_value()) << without.text;
  EXPECT_EQ(without.line->start.record.directory, "");
}

TEST(CommandLine, WrongUse_ExitsWithTwoAndNamesProblem) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{}, "ubcommand"},
      {{"dance"}, "dance"},
      {{"start"}, "--head"},
      {{"start", "--head", "--address", "a:1"}, "--address"},
      {{"start", "--head", "--name", "a\x1b[31mb"}, "control characters"},
      {{"start", "--head", "--name", "a\tb"}, "control characters"},
      {{"--address", "a:1", "run", "--", "true"}, "write `mobula run --address …`"},
      {{"start", "--head", "--num-cpus", "-1"}, "--num-cpus"},
      {{"start", "--head", "--num-cpus", "many"}, "--num-cpus"},
      {{"start", "--head", "--memory", "4 apples"}, "--memory"},
      {{"start", "--head", "--port", "70000"}, "--port"},
      {{"start", "--head", "--resources", "x"}, "--resources"},
      {{"start", "--head", "--labels", "zone"}, "--labels"},
      {{"start", "--head", "--labels", "-zone=a"}, "--labels"},
      {{"start", "--head", "--labels", "zone=!a"}, "--labels"},
      {{"start", "--head", "--labels", "mobula.io/node-id=a"}, "are reserved"},
      {{"start", "--head", "--labels-file", "/there/is/none.yaml"}, "/there/is/none.yaml"},
      {{"stop", "--grace", "-1"}, "--grace"},
      {{"drain", "12345678", "--deadline", "-1"}, "--deadline"},
      {{"start", "--head", "--name", "../x"}, "--name"},
      {{"status", "-o", "poem"}, "poem"},
      {{"list", "unicorns"}, "unicorns"},
      {{"list", "nodes", "--filter", "state"}, "--filter"},
      {{"get", "node"}, "id"},
      {{"logs", "--tail", "few"}, "few"},
  };
  for (const auto& [words, named] : wrong) {
    const auto parsed = parse(words);
    EXPECT_EQ(parsed.exit, 2) << named;
    EXPECT_THAT(parsed.text, HasSubstr(named));
    EXPECT_FALSE(parsed.line.has_value());
  }
}

TEST(CommandLine, Preemption_DefaultsToOff) {
  const auto after = [](std::vector<std::string> more) {
    std::vector<std::string> words{"start", "--head"};
    words.insert(words.end(), more.begin(), more.end());
    const auto parsed = parse(words);
    EXPECT_TRUE(parsed.line.has_value()) << parsed.text;
    return parsed.line ? parsed.line->start.preempt_delay : std::nullopt;
  };
  EXPECT_EQ(after({}), std::nullopt);
  EXPECT_EQ(after({"--preemption", "off"}), std::nullopt);
  EXPECT_EQ(after({"--preemption", "lower-priority"}), Duration(5s));
  EXPECT_EQ(after({"--preemption", "lower-priority", "--preempt-after", "0.5"}), Duration(500ms));
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"start", "--head", "--preemption", "all"}, "not a policy"},
      {{"start", "--head", "--preempt-after", "5"}, "needs --preemption"},
      {{"start", "--head", "--preemption", "lower-priority", "--preempt-after", "soon"}, "seconds"},
      {{"start", "--address", "h:1", "--preemption", "off"}, "--head"}};
  for (const auto& [words, why] : wrong) {
    const auto parsed = parse(words);
    EXPECT_EQ(parsed.exit, 2) << why;
    EXPECT_THAT(parsed.text, HasSubstr(why));
  }
}

TEST(CommandLine, HelpAndVersion_ExitWithZero) {
  EXPECT_EQ(parse({"--help"}).exit, 0);
  EXPECT_THAT(parse({"start", "--help"}).text, HasSubstr("--object-store-memory"));
  EXPECT_THAT(parse({"--version"}).text, HasSubstr("mobula"));
}

TEST(Version, NamesDebugBuild) {
  EXPECT_EQ(version_line("1.2.3", false), "mobula 1.2.3");
  EXPECT_EQ(version_line("1.2.3", true), "mobula 1.2.3 (debug build, not optimized)");
}

TEST(CommandLine, FormatAndOutput_AreOneFlag) {
  for (const char* flag : {"-o", "--output", "--format"}) {
    EXPECT_EQ(parse({"status", flag, "jsonl"}).line->output, OutputFormat::jsonl) << flag;
  }
}

TEST(CommandLine, PrefersFlagsToEnvironment) {
  ::setenv("MOBULA_ADDRESS", "there:1", 1);
  ::setenv("MOBULA_KEY_FILE", "/there.key", 1);
  EXPECT_EQ(parse({"status"}).line->address, "there:1");
  EXPECT_EQ(parse({"status"}).line->key_file, "/there.key");
  EXPECT_EQ(parse({"status", "--address", "here:2"}).line->address, "here:2");
  EXPECT_EQ(parse({"start", "--head"}).line->address, "");
  ::unsetenv("MOBULA_ADDRESS");
  ::unsetenv("MOBULA_KEY_FILE");
}

TEST(CommandLine, IgnoresLocalAsAddress) {
  ::setenv("MOBULA_ADDRESS", "local", 1);
  EXPECT_EQ(parse({"status"}).line->address, "") << "programs alone start a cluster by this word";
  ::unsetenv("MOBULA_ADDRESS");
}

TEST(CommandLine, ParsesTimesWithUnits) {
  EXPECT_DOUBLE_EQ(parse({"stop", "--grace", "1m"}).line->seconds, 60);
  EXPECT_DOUBLE_EQ(parse({"drain", "abcd", "--deadline", "1.5h"}).line->seconds, 5400);
  EXPECT_DOUBLE_EQ(parse({"start", "--head", "--grace", "250ms"}).line->start.grace, 0.25);
  EXPECT_DOUBLE_EQ(parse({"status", "-w", "3s"}).line->watch_seconds, 3);
  EXPECT_TRUE(parse({"status", "-w"}).line->watch);
  const auto job = parse({"run", "--time-limit", "2h", "--grace", "1m", "--", "true"});
  ASSERT_TRUE(job.line) << job.text;
  EXPECT_DOUBLE_EQ(job.line->job.time_limit, 7200);
  EXPECT_DOUBLE_EQ(job.line->job.grace, 60);
  EXPECT_EQ(parse({"start", "--head", "--preemption", "lower-priority", "--preempt-after", "1m"})
                .line->start.preempt_delay,
            Duration(std::chrono::minutes(1)));
  for (const char* bad : {"soon", "-1", "2d", "1 m"}) {
    const auto parsed = parse({"stop", "--grace", bad});
    EXPECT_EQ(parsed.exit, 2) << bad;
    EXPECT_THAT(parsed.text, HasSubstr(std::string("'") + bad + "'"));
  }
}

TEST(CommandLine, AcceptsSingularKinds) {
  EXPECT_EQ(parse({"list", "node"}).line->kind, "nodes");
  EXPECT_EQ(parse({"get", "actor", "12"}).line->kind, "actors");
}

TEST(ParseSize, ParsesBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_size("0").value(), 0);
  EXPECT_EQ(parse_size("512MiB").value(), std::int64_t{512} << 20);
  EXPECT_EQ(parse_size("1.5K").value(), 1536);
  EXPECT_EQ(parse_size("2GB").value(), 2'000'000'000);
  for (const char* bad : {"", "MiB", "-1", "1.2.3", "1 GiB", "0x10", "1e3", "nan", "99999999T"}) {
    EXPECT_FALSE(parse_size(bad).ok()) << bad;
  }
}

TEST(CommandLine, SuggestsNearestWordAndHelp) {
  EXPECT_THAT(parse({"strat", "--head"}).text, HasSubstr("did you mean 'mobula start'?"));
  EXPECT_THAT(parse({"nothing-like-it"}).text, HasSubstr("see 'mobula --help'"));
  EXPECT_THAT(parse({"job", "logs"}).text, HasSubstr("see 'mobula job logs --help'"));
}

TEST(CommandLine, ParsesReplOptions) {
  const auto script = parse({"repl", "-c", "status; version", "--name", "lab", "-o", "json"});
  ASSERT_TRUE(script.line.has_value()) << script.text;
  EXPECT_EQ(script.line->shell.script, "status; version");
  EXPECT_EQ(script.line->cluster, "lab");
  EXPECT_EQ(script.line->output, OutputFormat::json);
  EXPECT_TRUE(parse({"start", "--head", "--repl"}).line->start.repl);
  EXPECT_EQ(parse({"start", "--address", "h:1", "--repl"}).exit, 2);
  EXPECT_EQ(parse({"start", "--head", "--repl", "--block"}).exit, 2);
}

}  // namespace
}  // namespace mobula::internal::cli
