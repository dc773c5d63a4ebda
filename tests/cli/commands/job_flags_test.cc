#include "cli/commands/jobs/job_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands/jobs/batch_command.h"
#include "cli/output/text_table.h"

namespace mobula::internal::cli {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

Parsed parse_job(Words words) {
  words.insert(words.begin(), "mobula");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return parse_command_line(static_cast<int>(words.size()), argv.data());
}

TEST(JobFlagsTest, TakesWordsAfterDashesAsCommand) {
  const auto parsed = parse_job(
      {"run",  "--name",     "n",   "--retries",    "2",    "--env",        "A=b=c", "--env",
       "D=",   "--num-gpus", "0.5", "--gpu-memory", "1GiB", "--time-limit", "1.5",   "--",
       "prog", "--name",     "x",   "--",           "-y"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  EXPECT_EQ(parsed.line->job.argv, (Words{"prog", "--name", "x", "--", "-y"}));
  EXPECT_TRUE(parsed.line->cluster.empty()) << "--name is an argument of the job";
  const auto text = submission_text(parsed.line->job, "the id", "");
  ASSERT_TRUE(text.ok());
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["job_id"], "the id");
  EXPECT_EQ(json["name"], "n");
  EXPECT_EQ(json["env"], (nlohmann::json{{"A", "b=c"}, {"D", ""}}));
  EXPECT_EQ(json["retries"], 2);
  EXPECT_EQ(json["time_limit_ms"], 1500);
  EXPECT_EQ(json["request"],
            (nlohmann::json{{"num_gpus", 0.5}, {"gpu_memory", std::int64_t{1} << 30}}));
  EXPECT_EQ(json["cwd"], std::filesystem::current_path().string());
  EXPECT_FALSE(json.contains("workdir"));
}

TEST(JobFlagsTest, PassesTraceContextOn) {
  const char* const context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto env_of = [](const Words& words) {
    const auto parsed = parse_job(words);
    return nlohmann::json::parse(*submission_text(parsed.line->job, "id", ""))["env"];
  };
  ::setenv("TRACEPARENT", context, 1);
  ::setenv("TRACESTATE", "vendor=1", 1);
  EXPECT_EQ(env_of({"submit", "prog"}),
            (nlohmann::json{{"TRACEPARENT", context}, {"TRACESTATE", "vendor=1"}}));
  EXPECT_EQ(env_of({"submit", "--env", "TRACEPARENT=own", "prog"}),
            (nlohmann::json{{"TRACEPARENT", "own"}}));
  ::setenv("TRACEPARENT", "hostile", 1);
  EXPECT_EQ(env_of({"submit", "prog"}), nlohmann::json::object());
  ::unsetenv("TRACEPARENT");
  ::unsetenv("TRACESTATE");
}

TEST(JobFlagsTest, Flags_TakeNoWordsAfterDashes) {
  for (const char* const flag : {"--env", "--label", "--label-selector"}) {
    const auto parsed =
        parse_job({"submit", flag, "A=b", "--", "prog", "--num-cpus", "3", "--help"});
    ASSERT_TRUE(parsed.line.has_value()) << flag << ": " << parsed.text;
    EXPECT_EQ(parsed.line->job.argv, (Words{"prog", "--num-cpus", "3", "--help"})) << flag;
    EXPECT_TRUE(parsed.line->job.num_cpus.empty()) << flag;
    const auto without = parse_job({"submit", flag, "A=b", "prog", "more"});
    ASSERT_TRUE(without.line.has_value()) << flag << ": " << without.text;
    EXPECT_EQ(without.line->job.argv, (Words{"prog", "more"})) << flag;
    EXPECT_EQ(parse_job({"submit", flag, "--", "prog"}).exit, 2) << flag;
  }
  EXPECT_EQ(parse_job({"run", "--name", "--", "true"}).exit, 2);
}

TEST(JobFlagsTest, RewritesShippedProgramToItsName) {
  JobFlags flags;
  flags.argv = {"./build/train", "x"};
  flags.ship = {"./build/train"};
  flags.workdir = "project";
  const auto text = submission_text(flags, "id", "0123");
  ASSERT_TRUE(text.ok());
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["argv"], (Words{"train", "x"}));
  EXPECT_EQ(json["env"]["MOBULA_JOB_FILES"], "0123");
  EXPECT_FALSE(json.contains("cwd")) << "it runs in the copy";
  EXPECT_FALSE(json.contains("workdir"));
  flags.workdir.clear();
  flags.cwd = "/data/../data";
  EXPECT_EQ(nlohmann::json::parse(*submission_text(flags, "id", ""))["workdir"], "/data");
  flags.workdir = "project";
  EXPECT_THAT(submission_text(flags, "id", "").error().text, HasSubstr("--cwd"));
}

TEST(JobFlagsTest, TakesLastValueOfSingleFlag) {
  const auto parsed = parse_job(
      {"submit", "--num-gpus", "1", "--env", "A=1", "--num-gpus", "2", "--env", "B=2", "--", "x"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  EXPECT_EQ(parsed.line->job.num_gpus, "2");
  EXPECT_EQ(parsed.line->job.env, (Words{"A=1", "B=2"}));
}

TEST(BatchScript, ReadsFlagsBeforeFirstCommand) {
  EXPECT_TRUE(flags_of_script("s.sh", "#!/bin/sh\n#MOBULA --raw --no-wait\n").ok());
  const auto flags = flags_of_script("s.sh",
                                     "#!/bin/sh\n#MOBULA --name 'a b' --num-gpus 1\n# "
                                     "words\n\n#MOBULA\t--env A=\"x y\"\r\necho\n# MOBULA --x\n");
  ASSERT_TRUE(flags) << flags.error().text;
  EXPECT_EQ(*flags, (Words{"--name", "a b", "--num-gpus", "1", "--env", "A=x y"}));
}

TEST(BatchScript, NamesAllInvalidLinesAtOnce) {
  const auto flags = flags_of_script(
      "s.sh",
      "#!/bin/sh\n#MOBULA --unknown 1\n#MOBULA --time-limit 0.0001\n#MOBULA --name 'open\n"
      "#MOBULAR --name x\n#MOBULA --env nothing\n#MOBULA word\necho\n#MOBULA --name late\n");
  ASSERT_FALSE(flags);
  EXPECT_EQ(flags.error().code, ErrorCode::invalid_argument);
  const std::string& text = flags.error().text;
  for (const char* location : {"s.sh:2: ", "s.sh:3: --time-limit",
                               "s.sh:4: ", "s.sh:5: ", "s.sh:6: --env", "s.sh:7: ", "s.sh:9: "}) {
    EXPECT_THAT(text, HasSubstr(location));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

TEST(JobFlagsTest, ParsesJobActions) {
  const auto parsed = parse_job({"job", "logs", "--tail", "3", "-f", "abcd"});
  ASSERT_TRUE(parsed.line.has_value()) << parsed.text;
  EXPECT_EQ(parsed.line->command, "job");
  EXPECT_EQ(parsed.line->job.action, "logs");
  EXPECT_EQ(parsed.line->subject, "abcd");
  EXPECT_EQ(parsed.line->tail, 3);
  EXPECT_TRUE(parsed.line->follow);
  for (const Words& words : {Words{"job"},
                             {"job", "status"},
                             {"job", "list", "more"},
                             {"run"},
                             {"run", "--"},
                             {"run", "--priority", "2000", "--", "x"},
                             {"run", "--retries", "-2", "--", "x"},
                             {"wait"}}) {
    EXPECT_EQ(parse_job(words).exit, 2) << words.size();
  }
}

TEST(JobFlagsTest, NamesFlagOfInvalidValue) {
  const auto complaint = [](JobFlags flags) {
    flags.argv = {"x"};
    const auto text = submission_text(flags, "id", "");
    return text.ok() ? std::string("none") : text.error().text;
  };
  EXPECT_THAT(complaint({.env = {"=x"}}), HasSubstr("--env"));
  EXPECT_THAT(complaint({.time_limit = 0.0009}), HasSubstr("--time-limit"));
  EXPECT_EQ(complaint({.time_limit = 0.001}), "none");
  EXPECT_THAT(complaint({.labels = {"x"}}), HasSubstr("--label"));
  EXPECT_THAT(complaint({.num_cpus = "many"}), HasSubstr("--num-cpus"));
  EXPECT_THAT(complaint({.memory = "1 elephant"}), HasSubstr("--memory"));
  EXPECT_THAT(complaint({.resources = "[1]"}), HasSubstr("--resources"));
  EXPECT_THAT(complaint({.name = "\xff"}), HasSubstr("UTF-8"));
  EXPECT_EQ(complaint({}), "none");
}

TEST(JobFlagsTest, EscapesControlCharactersInTables) {
  TextTable table;
  table.add({"NAME"});
  table.add({"a\x1b[2Jb\nc\td"});
  EXPECT_THAT(table.text(), HasSubstr("a?[2Jb?c?d\n"));
}

}  // namespace
}  // namespace mobula::internal::cli
