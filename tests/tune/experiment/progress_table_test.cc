// The table of progress on terminals of several sizes.
#include "tune/runtime/progress_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "tune/experiment/experiment_world.h"

namespace mobula::internal::tune {
namespace {

constexpr std::int64_t live_trials = 15;

// An experiment whose first trials run, and whose trial 0 failed with a hostile text.
class ProgressTableTest : public ::testing::Test {
 protected:
  ProgressTableTest() {
    feed(ExperimentStarted{});
    for (GroupNumber group = 1; group <= live_trials; ++group) feed(GroupReady{group});
    for (TrialNumber trial = 1; trial < live_trials; ++trial)
      feed(TrialReported{trial, 1, {{"loss", 0.5}, {"training_iteration", 1}}});
    feed(TrialExited{0, 1, TrialExitKind::exception, "boom\n\x1b[2Jsecond line \xff"});
  }

  std::vector<std::string> lines_of(const ProgressView& view) const {
    std::vector<std::string> lines;
    std::istringstream text(table_.render(*core_, view));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  void feed(const ExperimentEvent& event) {
    std::vector<ExperimentCommand> commands;
    core_->step(1, event, commands);
  }

  const std::unique_ptr<ExperimentCore> core_ = make_core({.trials = 40, .max_failures = 0}, 3);
  const ProgressTable table_{{.name = "search", .metric = "loss"}};
  const std::string reason_ =
      "no node can hold bundle 0 (GPU 4); the node a has 2 in all, and the "
      "autoscaler has no type with more than 2 of them in its list";
};

TEST_F(ProgressTableTest, FitsTheTerminal) {
  for (const auto& [columns, lines] :
       std::vector<std::pair<std::size_t, std::size_t>>{{80, 18}, {120, 40}, {40, 12}, {20, 4}}) {
    const auto shown =
        lines_of({.waiting = reason_, .resources = "14 CPU", .columns = columns, .lines = lines});
    // The cursor is in the line below the table.
    EXPECT_LT(shown.size(), lines) << columns;
    for (const std::string& line : shown) EXPECT_LE(line.size(), columns) << line;
  }
}

TEST_F(ProgressTableTest, ShowsNodesAndResources) {
  const std::map<TrialNumber, std::string> nodes{{14, "0123456789abcdef"}};
  const auto shown =
      lines_of({.waiting = reason_, .resources = "14 CPU", .nodes = &nodes, .columns = 80});
  EXPECT_EQ(shown[0], "search: 0 s: 4 pending, 14 running, 0 paused, 0 terminated, 1 failed");
  EXPECT_EQ(shown[2], "in use: 14 CPU");
  EXPECT_TRUE(std::ranges::any_of(shown, [](const std::string& line) {
    return line.find("    14 RUNNING        1          0.5        - 01234567") == 0;
  })) << table_.render(*core_, {.nodes = &nodes});
  // The whole reason.
  std::string words;
  for (const std::string& line : shown) words += line + " ";
  EXPECT_NE(words.find("Next trial waits: " + reason_), std::string::npos) << words;
}

TEST_F(ProgressTableTest, ControlCharactersAreReplaced) {
  const std::string text =
      ProgressTable({.name = "a\nzz", .metric = "loss\x1b"}).render(*core_, {.lines = 1000});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\nzz"), std::string::npos);
  EXPECT_EQ(text.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace mobula::internal::tune
