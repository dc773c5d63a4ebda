#include "cli/repl/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command_line.h"

namespace mobula::internal::cli::repl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
    names_.ids = [](const std::string& kind) {
      if (kind == "nodes") return std::vector<std::string>{"8fa8", "77bb"};
      if (kind == "benchmarks") return std::vector<std::string>{"tasks", "transport"};
      if (kind == "submissions") return std::vector<std::string>{"0c0c", "train"};
      return std::vector<std::string>{};
    };
    names_.files = [](const std::string&) { return std::vector<std::string>{"file"}; };
    names_.functions = {"mean", "moved"};
    names_.classes = {"Counter"};
    names_.results = {"x"};
    names_.actors = {"c", "new"};
    names_.methods["c"] = {"add", "value"};
  }
  std::vector<std::string> words(const std::string& before, bool console = true) const {
    return complete(before, tree_, names_, console).words;
  }

  const CommandNode tree_ = command_tree();
  LiveNames names_;
};

TEST_F(CompletionTest, CompletesVerbs) {
  EXPECT_THAT(words("expl"), ElementsAre("explain"));
  EXPECT_THAT(words("ac"), ElementsAre("actor"));
  EXPECT_THAT(words("ac", false), IsEmpty());
  EXPECT_THAT(words("\\t"), ElementsAre("\\timing"));
  EXPECT_THAT(words("\\x"), ElementsAre("\\x"));
  EXPECT_THAT(words("status; li"), ElementsAre("list"));
  EXPECT_EQ(complete("status; li", tree_, names_, true).from, 8u);
  EXPECT_THAT(words("job l"), ElementsAre("list", "logs"));
}

TEST_F(CompletionTest, CompletesActorsAndTheirMethods) {
  EXPECT_THAT(words("c"), Contains("c."));
  EXPECT_THAT(words("c."), ElementsAre("c.add", "c.value"));
  EXPECT_THAT(words("c.a"), ElementsAre("c.add"));
  EXPECT_THAT(words("let y = c.v"), ElementsAre("c.value"));
  EXPECT_THAT(words("ne"), ElementsAre("new."));
  EXPECT_THAT(words("new.x"), IsEmpty());
}

TEST_F(CompletionTest, CompletesOptionsAndValues) {
  EXPECT_THAT(words("start --he"), ElementsAre("--head", "--help"));
  EXPECT_THAT(words("start --"), Not(Contains("--driver-agent")));
  EXPECT_THAT(words("status -o j"), ElementsAre("json", "jsonl"));
  EXPECT_THAT(words("up --dr"), ElementsAre("--dry-run"));
  EXPECT_THAT(words("bench --q"), ElementsAre("--quick"));
  EXPECT_THAT(words("symmetric --sh"), ElementsAre("--shared-folder"));
  EXPECT_THAT(words("symmetric --num-g"), ElementsAre("--num-gpus"));
  EXPECT_THAT(words("symmetric --hea"), ElementsAre("--head-host"));
}

TEST_F(CompletionTest, CompletesKindsAndLiveIds) {
  EXPECT_THAT(words("list nod"), ElementsAre("nodes"));
  EXPECT_THAT(words("bench tr"), ElementsAre("transport"));
  EXPECT_THAT(words("get nod"), ElementsAre("node"));
  EXPECT_THAT(words("get node "), ElementsAre("77bb", "8fa8"));
  EXPECT_THAT(words("drain 8"), ElementsAre("8fa8"));
  EXPECT_THAT(words("undrain 8"), ElementsAre("8fa8"));
  EXPECT_THAT(words("wait t"), ElementsAre("train"));
  EXPECT_THAT(words("mobula job logs "), ElementsAre("0c0c", "train"));
  EXPECT_THAT(words("\\watch 2 get node 7"), ElementsAre("77bb"));
}

TEST_F(CompletionTest, CompletesFunctionsOfProgram) {
  EXPECT_THAT(words("call m"), ElementsAre("mean", "moved"));
  EXPECT_THAT(words("call mean "), ElementsAre("with", "x"));
  EXPECT_THAT(words("let y = call me"), ElementsAre("mean"));
  EXPECT_THAT(words("actor d = C"), ElementsAre("Counter"));
  EXPECT_THAT(words("kill "), ElementsAre("c", "new"));
  EXPECT_THAT(words("get "), Contains("x"));
  EXPECT_THAT(words("get "), Contains("node"));
  EXPECT_THAT(words("use "), ElementsAre("file"));
}

TEST_F(CompletionTest, FindsCommonPrefix) {
  EXPECT_EQ(common_beginning({"mean", "moved"}), "m");
  EXPECT_EQ(common_beginning({"one"}), "one");
  EXPECT_EQ(common_beginning({}), "");
}

}  // namespace
}  // namespace mobula::internal::cli::repl
