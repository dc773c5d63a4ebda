#include "cli/output/help_renderer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/repl/watch.h"

namespace mobula::internal::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(HelpText, ListsAllCommandsOfGrammar) {
  const CommandNode tree = command_tree();
  const auto all = help_text(tree, {});
  ASSERT_TRUE(all.ok());
  for (const auto& each : tree.commands) EXPECT_THAT(*all, HasSubstr("  " + each.name + " "));
  const auto logs = help_text(tree, {"job", "logs"});
  ASSERT_TRUE(logs.ok());
  EXPECT_THAT(*logs, HasSubstr("--follow"));
  EXPECT_THAT(*logs, HasSubstr("mobula job logs JOB"));
  EXPECT_THAT(*help_text(tree, {"exit-codes"}), HasSubstr("never be scheduled"));
}

TEST(HelpText, FlagAndCommand_PrintSamePage) {
  const CommandNode tree = command_tree();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"start"}, {"job", "logs"}, {"token", "create"}}) {
    std::vector<std::string> line{"mobula"};
    line.insert(line.end(), words.begin(), words.end());
    line.emplace_back("--help");
    std::vector<char*> argv;
    for (auto& each : line) argv.push_back(each.data());
    const Parsed parsed = parse_command_line(static_cast<int>(argv.size()), argv.data());
    EXPECT_EQ(parsed.exit, 0);
    EXPECT_EQ(parsed.text, *help_text(tree, words));
    for (const char* internal :
         {":INT", ":FLOAT", ":TEXT", "REQUIRED", " in [", "Excludes", "Env:"}) {
      EXPECT_THAT(parsed.text, Not(HasSubstr(internal))) << line.back();
    }
  }
  EXPECT_THAT(*help_text(tree, {"start"}), HasSubstr("--memory SIZE"));
  EXPECT_THAT(*help_text(tree, {"drain"}), HasSubstr("--deadline SECONDS"));
}

void expect_style(const CommandNode& node, const std::string& path) {
  const auto is_phrase = [](const std::string& about) {
    return !about.empty() && about.back() != '.';
  };
  EXPECT_TRUE(is_phrase(node.about)) << path << ": " << node.about;
  for (const auto& each : node.options) {
    EXPECT_TRUE(is_phrase(each.about)) << path << " " << each.names.front() << ": " << each.about;
    if (each.takes_value) EXPECT_NE(each.value, "VALUE") << path << " " << each.names.front();
  }
  for (const auto& each : node.commands) expect_style(each, path + " " + each.name);
}

TEST(HelpText, NamesKindsOfValuesWithoutPeriods) { expect_style(command_tree(), "mobula"); }

TEST(HelpText, FitsIn100Columns) {
  const CommandNode tree = command_tree();
  std::vector<std::vector<std::string>> pages{{}, {"exit-codes"}, {"environment"}};
  for (const auto& each : tree.commands) pages.push_back({each.name});
  for (const auto& words : pages) {
    const std::string text = help_text(tree, words).value();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

TEST(HelpText, SuggestsNearestTopic) {
  const auto none = help_text(command_tree(), {"expalin"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  EXPECT_THAT(none.error().text, HasSubstr("mobula help explain"));
}

TEST(ManualPage, MatchesGrammar) {
  const CommandNode tree = command_tree();
  const std::string page = manual_page(*tree.command("start"), "mobula start", "1.2.3");
  EXPECT_THAT(page, HasSubstr(".TH MOBULA\\-START 1"));
  EXPECT_THAT(page, HasSubstr("\\-\\-num\\-cpus N"));
  EXPECT_THAT(page, Not(HasSubstr("driver\\-agent")));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS"));
}

TEST(CompletionScript, CallsProgramForCompletion) {
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(completion_script(shell), HasSubstr("mobula complete-line"));
}

TEST(ClusterWatch, ReportsChanges) {
  const repl::SeenThings before{{"0123456789abcdef", {"train", "PENDING"}},
                                {"ff", {"", "RUNNING"}}};
  const repl::SeenThings after{{"0123456789abcdef", {"train", "RUNNING"}}, {"ee", {"", "PENDING"}}};
  EXPECT_THAT(
      repl::changes_between("job", before, after),
      ElementsAre("job 01234567 (train) is RUNNING", "job ee is PENDING", "job ff is gone"));
  EXPECT_THAT(repl::changes_between("job", after, after), IsEmpty());
}

TEST(ClusterWatch, ShowsNodesAndUsageInPrompt) {
  nlohmann::ordered_json status = {{"cluster_name", "lab"},
                                   {"nodes", {{"ALIVE", 2}, {"DRAINING", 1}, {"DEAD", 4}}},
                                   {"resources", {{"CPU", {{"total", 8}, {"available", 7.5}}}}}};
  EXPECT_EQ(repl::prompt_of(status), "(lab 3n 0.5/8 CPU) > ");
  status["resources"]["GPU"] = {{"total", 8}, {"available", 3.5}};
  EXPECT_EQ(repl::prompt_of(status), "(lab 3n 4.5/8 GPU) > ");
}

TEST(Texts, DescribesBatchTokensAndRun) {
  const auto tree = command_tree();
  EXPECT_THAT(help_text(tree, {"batch"}).value(), HasSubstr("#MOBULA"));
  EXPECT_THAT(help_text(tree, {"environment"}).value(), HasSubstr("MOBULA_TOKEN_FILE"));
  EXPECT_THAT(help_text(tree, {"run"}).value(), HasSubstr("Run a command on the cluster"));
}

}  // namespace
}  // namespace mobula::internal::cli
