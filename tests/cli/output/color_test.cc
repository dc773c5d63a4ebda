// Colors of tables and messages, and the choice of pages for the pager.
#include "cli/output/color.h"

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/output/text_table.h"
#include "cli/output/watch_page.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string without_colors(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const auto size = color_at(std::string_view(text).substr(at));
    if (size == 0) plain += text[at];
    at += size == 0 ? 1 : size;
  }
  return plain;
}

TEST(Colors, UsesColorsOnTerminalsUnlessOverridden) {
  using enum ColorChoice;
  EXPECT_TRUE(wants_colors(automatic, {.terminal = true, .term = "xterm"}));
  EXPECT_FALSE(wants_colors(automatic, {.terminal = false, .term = "xterm"}));
  EXPECT_FALSE(wants_colors(automatic, {.terminal = true, .no_color = "1"}));
  EXPECT_TRUE(wants_colors(automatic, {.terminal = true, .no_color = ""})) << "empty is as not set";
  EXPECT_FALSE(wants_colors(automatic, {.terminal = true, .term = "dumb"}));
  EXPECT_TRUE(wants_colors(always, {.terminal = false, .no_color = "1"}));
  EXPECT_FALSE(wants_colors(never, {.terminal = true}));
}

TEST(Colors, DistinguishesKindsOfState) {
  for (const char* state : {"RUNNING", "ALIVE", "RUNNING_IN_GET", "ok"})
    EXPECT_EQ(paint_of(state), Paint::good) << state;
  for (const char* state : {"PENDING", "PENDING_CREATION", "DRAINING", "RESTARTING"})
    EXPECT_EQ(paint_of(state), Paint::waiting) << state;
  for (const char* state : {"FAILED", "DEAD", "LOST", "unreachable"})
    EXPECT_EQ(paint_of(state), Paint::bad) << state;
  for (const char* state : {"SUCCEEDED", "FINISHED", "-", "RUNNINGX", ""})
    EXPECT_EQ(paint_of(state), std::nullopt) << state;
}

TEST(Colors, KeepsColumnsAligned) {
  TextTable table;
  table.add({"NAME", "STATE", "COUNT"});
  table.add({"\xc3\xa4\xc3\xa4", "DEAD", "1"});
  table.add({"DEAD", "PENDING_CREATION", "1000"});
  const std::string colored = table.text(true);
  EXPECT_EQ(without_colors(colored), table.text());
  EXPECT_NE(colored.find("\x1b[31mDEAD\x1b[0m              "), std::string::npos) << colored;
  EXPECT_NE(colored.find("\nDEAD  "), std::string::npos) << "a name is no state: " << colored;
  EXPECT_NE(colored.find("\x1b[1mNAME\x1b[0m"), std::string::npos) << colored;
}

TEST(Colors, CutsLinesByVisibleWidth) {
  EXPECT_EQ(cut_to_width("\x1b[31mDEAD\x1b[0m b", 2), "\x1b[31mDE\x1b[0m");
  EXPECT_EQ(cut_to_width("\x1b[31mDEAD\x1b[0m b", 5), "\x1b[31mDEAD\x1b[0m ");
  EXPECT_EQ(cut_to_width("\x1b[31mDEAD\x1b[0m", 4), "\x1b[31mDEAD\x1b[0m");
  EXPECT_EQ(cut_to_width("\x1b[1", 9), "\x1b[1") << "the escape sequence is incomplete";
}

TEST(Colors, MachineFormats_HaveNoColors) {
  const Json list = {{"items", {{{"node_id", "aa"}, {"state", "DEAD"}}}}, {"warnings", {"w"}}};
  TableFlags style;
  style.colored = true;
  for (const auto format : {OutputFormat::json, OutputFormat::jsonl, OutputFormat::yaml,
                            OutputFormat::csv, OutputFormat::name}) {
    EXPECT_EQ(format_document(list, format, "nodes", style, 0).value().find('\x1b'),
              std::string::npos)
        << static_cast<int>(format);
  }
  const auto table = format_document(list, OutputFormat::table, "nodes", style, 0).value();
  EXPECT_NE(table.find("\x1b[31mDEAD"), std::string::npos) << table;
  EXPECT_EQ(without_colors(table), format_document(list, OutputFormat::table, "nodes"));
  EXPECT_LT(without_colors(format_document(list, OutputFormat::table, "nodes", style, 10).value())
                .find('\n'),
            11u);
}

TEST(Colors, Pages_DifferOnlyInColors) {
  const Json status = Json::parse(R"json({
    "cluster_name": "c", "state": "RUNNING", "address": "a:1", "epoch": 1, "version": "v", "leases": 0, "nodes": {"ALIVE": 1, "DEAD": 2},
    "gpus": [{"devices": 1}], "waiting": [{"kind": "tasks", "count": 4}], "warnings": ["w"]})json");
  const Json nodes = Json::parse(
      R"json({"items": [{"node_id": "ab", "state": "ALIVE", "devices": {"GPU": [{"total": 1}]}}]})json");
  const std::string page = format_watch(status, nodes, Json::object(), 5, true);
  EXPECT_EQ(without_colors(page), format_watch(status, nodes, Json::object(), 5));
  EXPECT_NE(page.find("2 \x1b[31mDEAD\x1b[0m"), std::string::npos) << page;
  EXPECT_LT(page.find("GPU MAP"), page.find("WAITING")) << page;
}

TEST(Colors, AcceptsFlagOnEveryCommandBeforeEnvironment) {
  const auto parsed = [](std::vector<std::string> words) {
    std::vector<char*> argv{const_cast<char*>("mobula")};
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return parse_command_line(static_cast<int>(argv.size()) - 1, argv.data());
  };
  ::unsetenv("MOBULA_COLOR");
  EXPECT_EQ(parsed({"status"}).line->color, ColorChoice::automatic);
  EXPECT_EQ(parsed({"list", "nodes", "--color=always"}).line->color, ColorChoice::always);
  EXPECT_EQ(parsed({"job", "list", "--color", "never"}).line->color, ColorChoice::never);
  EXPECT_FALSE(parsed({"status", "--color", "blue"}).line);
  EXPECT_FALSE(parsed({"list", "nodes", "--no-pager"}).line->pager);
  ::setenv("MOBULA_COLOR", "never", 1);
  EXPECT_EQ(parsed({"status"}).line->color, ColorChoice::never);
  EXPECT_EQ(parsed({"status", "--color=always"}).line->color, ColorChoice::always);
  ::setenv("MOBULA_COLOR", "blue", 1);
  EXPECT_NE(parsed({"status"}).text.find("MOBULA_COLOR"), std::string::npos);
  ::unsetenv("MOBULA_COLOR");
  const CommandNode tree = command_tree();
  for (const auto& command : tree.commands) {
    if (command.name == "bench" || command.name == "symmetric" || command.name == "attach" ||
        command.name == "exec")
      continue;
    const auto& leaf = command.commands.empty() ? command : command.commands.front();
    EXPECT_NE(leaf.option("--color"), nullptr) << command.name;
  }
  EXPECT_NE(tree.command("batch")->option("--raw"), nullptr);
}

TEST(Pager, FollowsUserPreference) {
  EXPECT_EQ(pager_command("a", "b"), "a");
  EXPECT_EQ(pager_command("", "b"), "") << "none";
  EXPECT_EQ(pager_command(nullptr, "b"), "b");
  EXPECT_EQ(pager_command(nullptr, nullptr), "less -FRX");
}

TEST(Pager, RunsOnlyForMoreThanOneScreen) {
  EXPECT_FALSE(is_longer_than("1\n2\n3\n", 4, 80));
  EXPECT_TRUE(is_longer_than("1\n2\n3\n", 3, 80)) << "the prompt comes below";
  EXPECT_TRUE(is_longer_than(std::string(241, 'x') + "\n", 4, 80)) << "it takes four rows";
  EXPECT_FALSE(is_longer_than(std::string(240, 'x') + "\n", 4, 80));
  EXPECT_FALSE(is_longer_than("\x1b[31m" + std::string(80, 'x') + "\x1b[0m\n", 2, 80))
      << "escape sequences have no width";
  EXPECT_FALSE(is_longer_than("", 1, 80));
}

}  // namespace
}  // namespace mobula::internal::cli
