// Executors of a command instead of the driver's own program. The command is this program with the
// argument "serve".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "dynamic/cpp_host.h"

namespace mobula::dynamic {
namespace {

using ::testing::HasSubstr;

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Cluster start(std::vector<std::string> command, std::map<std::string, std::string> env = {},
              Environment job_env = {}) {
  return dynamic::init({.address = "local", .num_cpus = 2, .env = std::move(job_env)},
                       {.command = std::move(command),
                        .environment_key = "test",
                        .fork_server_env = std::move(env)});
}

std::string variable(const std::string& name) {
  const Text text(name);
  const Argument argument = text.argument();
  return text_of(submit({.name = "getenv"}, {}, {&argument, 1})[0]);
}

std::string error_of_task() {
  try {
    (void)text_of(submit({.name = "hooks"}, {.fail_if_infeasible = true}, {})[0]);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Interpreter, ExecutorsRunTheCommand) {
  const auto cluster =
      start({own_path(), "serve"}, {{"ONE_THREAD", "1"}, {"OF_JOB", "1"}}, {{"OF_JOB", "2"}});
  EXPECT_THAT(text_of(submit({.name = "hooks"}, {}, {})[0]), HasSubstr(" child 1 assigned 1"));
  EXPECT_EQ(variable("ONE_THREAD"), "1");
  EXPECT_EQ(variable("OF_JOB"), "2");
  const auto actor = create({.name = "Counter", .class_name = "Counter"}, {}, {});
  EXPECT_EQ(text_of(call(actor, {.name = "Counter.add"}, {}, {})[0]), "1");
}

TEST(Interpreter, CommandWithoutHost_ErrorNamesLanguage) {
  const auto cluster = start({own_path(), "serve", "nothing"});
  const auto error = error_of(submit({.name = "hooks"}, {}, {})[0]);
  EXPECT_EQ(error.kind, detail::ErrorKind::task);
  EXPECT_THAT(error.message,
              HasSubstr("running hooks, a function of test 1.0: this process has no host for it"));
}

TEST(Interpreter, CommandFails_NodeIsInfeasible) {
  const auto cluster = start({"sh", "-c", "echo the interpreter is broken >&2; exit 1"});
  EXPECT_THAT(error_of_task(), HasSubstr("the interpreter is broken"));
}

TEST(Interpreter, CommandIsMissing_NodeIsInfeasible) {
  const auto cluster = start({"no-such-interpreter"});
  EXPECT_THAT(error_of_task(),
              HasSubstr("run interpreter no-such-interpreter: the PATH of the node's agent"));
}

TEST(Interpreter, OtherBuild_NodeIsInfeasible) {
  const auto cluster =
      start({"sh", "-c", "MOBULA_LIBRARY_BUILD=0123 exec " + own_path() + " serve"});
  EXPECT_THAT(error_of_task(), HasSubstr("and its driver build 0123; install the same one"));
}

TEST(Interpreter, EmptyCommand_Refused) { EXPECT_THROW((void)start({}), InvalidRequestError); }

}  // namespace
}  // namespace mobula::dynamic

int main(int argc, char** argv) {
  const bool serves = argc > 1 && std::string(argv[1]) == "serve";
  if (!serves || argc == 2) mobula::dynamic::set_host(mobula::dynamic::cpp_host());
  if (serves) (void)mobula::dynamic::init({}, {});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
