#include "deploy/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace mobula::internal::deploy {
namespace {

using ::testing::HasSubstr;

Command command_of(std::vector<std::string> words) {
  Command command;
  command.words = std::move(words);
  return command;
}

TEST(RunProcess, PassesInputAndCapturesOutputs) {
  auto command = command_of({"sh", "-c", "cat; echo $NAME >&2; exit 3"});
  command.environment = {{"NAME", "a value"}};
  const auto outcome = run(command, "some input", 30s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 3);
  EXPECT_EQ(outcome->out, "some input");
  EXPECT_EQ(outcome->err, "a value\n");
  EXPECT_FALSE(outcome->timed_out);
}

TEST(RunProcess, TransfersMoreThanPipesHold) {
  const std::string input(3'000'000, 'x');
  const auto outcome = run(command_of({"cat"}), input, 30s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->out.size(), input.size());
}

TEST(RunProcess, UnreadInput_IsDropped) {
  const auto outcome = run(command_of({"true"}), std::string(3'000'000, 'x'), 30s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 0);
}

TEST(RunProcess, TimesOutAndTerminates) {
  const auto outcome = run(command_of({"sleep", "1000"}), "", 50ms);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->timed_out);
  EXPECT_EQ(outcome->code, 128 + SIGTERM);
}

TEST(RunProcess, NamesMissingProgram) {
  const auto outcome = run(command_of({"no-such-program"}), "", 30s);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::not_found);
  EXPECT_THAT(outcome.error().text, HasSubstr("no-such-program"));
  const auto directory = run(command_of({"/tmp"}), "", 30s);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::permission_denied);
}

TEST(RunProcess, RestoresSignals) {
  const auto outcome = run(command_of({"sh", "-c", "kill -PIPE $$"}), "", 30s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 128 + SIGPIPE);
}

TEST(Quoted, FormsOneShellWord) {
  const std::string hard = "a 'b' $c \\ \"d\" `e`\n*";
  const auto outcome = run(command_of({"sh", "-c", "printf %s " + quoted(hard)}), "", 30s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->out, hard);
}

}  // namespace
}  // namespace mobula::internal::deploy
