#include "cli/repl/line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal::cli::repl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Kind>
Kind only(const std::string& line) {
  const auto statements = parse_line(line);
  EXPECT_TRUE(statements.ok()) << line << ": " << statements.error().text;
  if (!statements.ok() || statements->size() != 1) return {};
  const auto* statement = std::get_if<Kind>(&statements->front());
  EXPECT_NE(statement, nullptr) << line;
  return statement == nullptr ? Kind{} : *statement;
}

std::string why_not(const std::string& line) {
  const auto statements = parse_line(line);
  EXPECT_FALSE(statements.ok()) << line;
  return statements.ok() ? "" : statements.error().text;
}

TEST(ReplLine, SplitsCommandsLikeShell) {
  EXPECT_THAT(only<Command>("list nodes").words, ElementsAre("list", "nodes"));
  EXPECT_THAT(only<Command>("mobula  status ").words, ElementsAre("status"));
  EXPECT_THAT(only<Command>("run -- sh -c 'echo \"a;b\" # c'").words,
              ElementsAre("run", "--", "sh", "-c", "echo \"a;b\" # c"));
  EXPECT_THAT(only<Command>(R"(explain "{\"num_cpus\": 1}")").words,
              ElementsAre("explain", R"({"num_cpus": 1})"));
  EXPECT_THAT(only<Command>(R"(run a\ b '')").words, ElementsAre("run", "a b", ""));
  EXPECT_THAT(only<Command>(R"(run "a\n")").words, ElementsAre("run", "a\\n"));
}

TEST(ReplLine, SplitsAtSemicolonsAndHash) {
  const auto statements = parse_line("status; list nodes;; # the rest; is not read");
  ASSERT_TRUE(statements.ok());
  ASSERT_EQ(statements->size(), 2u);
  EXPECT_THAT(std::get<Command>((*statements)[1]).words, ElementsAre("list", "nodes"));
  EXPECT_TRUE(parse_line("")->empty());
  EXPECT_TRUE(parse_line("   # nothing")->empty());
  EXPECT_THAT(only<Command>("get job a#b").words, ElementsAre("get", "job", "a#b"));
}

TEST(ReplLine, ParsesJsonAndNamesInCalls) {
  const Call call = only<Call>(
      R"(call f 1 -2.5 "a, b; c" [1, {"k": [2]}] x $y true with num_gpus=0.5 name=train)");
  EXPECT_EQ(call.function, "f");
  ASSERT_EQ(call.arguments.size(), 7u);
  EXPECT_EQ(call.arguments[2].json, R"("a, b; c")");
  EXPECT_EQ(call.arguments[3].json, R"([1, {"k": [2]}])");
  EXPECT_EQ(call.arguments[4].name, "x");
  EXPECT_EQ(call.arguments[5].name, "y");
  EXPECT_EQ(call.arguments[6].json, "true");
  ASSERT_EQ(call.options.size(), 2u);
  EXPECT_EQ(call.options[0].name, "num_gpus");
  EXPECT_EQ(call.options[0].json, "0.5");
  EXPECT_EQ(call.options[1].json, "\"train\"");
}

TEST(ReplLine, ParsesNamedResultsAndActorCalls) {
  const Call let = only<Call>("let x = call ns::f(1, \"two\")");
  EXPECT_EQ(let.let, "x");
  EXPECT_EQ(let.function, "ns::f");
  EXPECT_EQ(let.arguments.size(), 2u);
  const MakeActor actor = only<MakeActor>("actor c = Counter(10) with max_restarts=3");
  EXPECT_EQ(actor.name, "c");
  EXPECT_EQ(actor.class_name, "Counter");
  EXPECT_EQ(actor.options.size(), 1u);
  const Call method = only<Call>("c.add(5)");
  EXPECT_EQ(method.object, "c");
  EXPECT_EQ(method.function, "add");
  EXPECT_EQ(only<Call>("let y = c.add()").let, "y");
  EXPECT_EQ(only<Kill>("kill c").name, "c");
  EXPECT_THAT(only<Use>("use ./prog --flag 'a b'").words, ElementsAre("./prog", "--flag", "a b"));
}

TEST(ReplLine, BindsSubmittedJobToName) {
  const LetJob let = only<LetJob>("let r = submit --name 'a b' -- sh -c 'exit 3' # not this");
  EXPECT_EQ(let.name, "r");
  EXPECT_THAT(let.words, ElementsAre("submit", "--name", "a b", "--", "sh", "-c", "exit 3"));
  EXPECT_THAT(only<LetJob>("let r=run -- true").words, ElementsAre("run", "--", "true"));
  EXPECT_EQ(only<Call>("let r = submit.go(1)").object, "submit");
}

TEST(ReplLine, DistinguishesGetOfResultAndCluster) {
  EXPECT_EQ(only<Get>("get x").name, "x");
  EXPECT_EQ(only<Get>("get $x").name, "x");
  EXPECT_THAT(only<Command>("get node 1234").words, ElementsAre("get", "node", "1234"));
  EXPECT_THAT(only<Command>("get --help").words, ElementsAre("get", "--help"));
}

TEST(ReplLine, ParsesConsoleCommandsAfterBackslash) {
  EXPECT_EQ(only<Meta>("\\timing").name, "timing");
  // The shell interprets its own ';' and '#'.
  EXPECT_EQ(only<Meta>("\\! a; b # c").rest, "a; b # c");
  EXPECT_EQ(only<Meta>("\\!ls -l; pwd").name, "!ls");
  const Meta watch = only<Meta>("\\watch 2 list nodes ");
  EXPECT_EQ(watch.name, "watch");
  EXPECT_EQ(watch.rest, "2 list nodes");
  only<Leave>("exit");
  only<Leave>("quit");
}

TEST(ReplLine, NamesErrorWithItsColumn) {
  EXPECT_THAT(why_not("run 'open"), HasSubstr("quote of column 5 is not closed"));
  EXPECT_THAT(why_not("call"), HasSubstr("missing function"));
  EXPECT_THAT(why_not("call f {\"a\": }"), HasSubstr("column 8"));
  EXPECT_THAT(why_not("call f(1, 2"), HasSubstr("missing ',' or"));
  EXPECT_THAT(why_not("call f(1 2)"), HasSubstr("missing ',' or"));
  EXPECT_THAT(why_not("call f 1 with gpus"), HasSubstr("num_gpus=0.5"));
  EXPECT_THAT(why_not("call f " + std::string(300, '[')), HasSubstr("nests deeper than 256"));
  EXPECT_THAT(why_not("let = 5"), HasSubstr("let NAME"));
  EXPECT_THAT(why_not("let x = 5"), HasSubstr("call FUNCTION"));
  EXPECT_THAT(why_not("actor c"), HasSubstr("actor NAME"));
  EXPECT_THAT(why_not("kill"), HasSubstr("missing actor"));
  EXPECT_THAT(why_not(std::string("a\0b", 3)), HasSubstr("zero byte"));
}

TEST(ReplLine, RejectsLongLineWithItsLength) {
  EXPECT_TRUE(parse_line("status " + std::string(longest_line - 7, 'x')).ok());
  EXPECT_THAT(why_not(std::string(1'000'000, 'x')), HasSubstr("1000000 bytes"));
}

TEST(ReplLine, RestoresQuotedWords) {
  for (const std::string word : {"a", "", "a b", "it's", "\"", "\\", "#x", "a;b", "ä"}) {
    const auto words = words_of(quoted_word(word));
    ASSERT_TRUE(words.ok()) << word;
    EXPECT_THAT(*words, ElementsAre(word));
  }
}

}  // namespace
}  // namespace mobula::internal::cli::repl
