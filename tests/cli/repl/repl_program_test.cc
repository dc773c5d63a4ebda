// The console's connection to a user's program that misbehaves. Neither side blocks the other, and
// Ctrl-C always ends a wait.
#include "cli/repl/user_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace mobula::internal::cli::repl {
namespace {

using ::testing::HasSubstr;

bool ready(int fd, short events) {
  pollfd item{fd, events, 0};
  EXPECT_EQ(::poll(&item, 1, 60'000), 1) << "nothing happens";
  return true;
}

class UserProgramTest : public testing::Test {
 protected:
  UserProgramTest() {
    std::string name = std::filesystem::temp_directory_path() / "mobula-repl-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~UserProgramTest() override { std::filesystem::remove_all(directory_); }

  UserProgram run(const std::string& script, const ClusterAddress& cluster = {}) {
    auto started = UserProgram::start({"bash", "-c", script}, cluster, directory_, -1);
    EXPECT_TRUE(started.ok());
    return std::move(*started);
  }
  static Json large() { return {{"do", "call"}, {"argument", std::string(600'000, 'x')}}; }

  std::string directory_;
};

constexpr const char* answers =
    "n=0; while read -r line; do n=$((n+1)); echo \"{\\\"n\\\": $n}\"; done <&198 >&198";

TEST_F(UserProgramTest, InterruptsLargeRequestAndResumesLater) {
  auto program = run("while [ ! -e " + directory_ + "/go ]; do sleep 0.05; done; " + answers);
  int waits = 0;
  const auto interrupted = program.request(large(), [&](int, short) { return ++waits < 3; });
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error().code, ErrorCode::cancelled);
  std::ofstream(directory_ + "/go") << "go";
  // The rest of the interrupted request is sent first, and its reply is discarded.
  const auto next = program.request({{"do", "describe"}}, ready);
  ASSERT_TRUE(next.ok()) << next.error().text;
  EXPECT_EQ((*next)["n"], 2);
  EXPECT_EQ((*program.request(large(), ready))["n"], 3);
}

TEST_F(UserProgramTest, ReadsReplyWhileRequestIsWritten) {
  auto program =
      run("head -c 2000000 /dev/zero | tr '\\0' a >&198; echo >&198; " + std::string(answers));
  const auto strange = program.request(large(), ready);
  ASSERT_FALSE(strange.ok());
  EXPECT_THAT(strange.error().text, HasSubstr("not JSON"));
}

TEST_F(UserProgramTest, ProgramClosedPipe_ReportsItStillRuns) {
  auto program = run("exec 198>&-; exec sleep 1000");
  const auto gone = program.request({{"do", "describe"}}, ready);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, ErrorCode::unavailable);
  EXPECT_THAT(gone.error().text, HasSubstr("still runs as process"));
  EXPECT_THAT(program.request({{"do", "describe"}}, ready).error().text,
              HasSubstr("`use` restarts it"));
}

TEST_F(UserProgramTest, PassesKeyFileButNoToken) {
  const std::string tells =
      "read -r line <&198; echo \"{\\\"key\\\": \\\"$MOBULA_KEY_FILE\\\"}\" >&198; sleep 1000";
  ClusterAddress cluster;
  cluster.key_path = "/keys/of.key";
  EXPECT_EQ((*run(tells, cluster).request({{"do", "describe"}}, ready))["key"], "/keys/of.key");
  cluster.by_token = true;
  cluster.key_path = "the token in MOBULA_TOKEN_FILE";
  EXPECT_EQ((*run(tells, cluster).request({{"do", "describe"}}, ready))["key"], "");
}

TEST_F(UserProgramTest, ProgramExited_ReportsCode) {
  auto program = run("exit 3");
  EXPECT_THAT(program.request({{"do", "describe"}}, ready).error().text,
              HasSubstr("exited with code 3; it must call mobula::init"));
}

TEST_F(UserProgramTest, ProgramExitedAfterReply_SuggestsUse) {
  auto program = run("read -r line <&198; echo '{}' >&198; read -r line <&198; kill -9 $$");
  ASSERT_TRUE(program.request({{"do", "describe"}}, ready).ok());
  UserProgram kept = std::move(program);
  EXPECT_THAT(kept.request({{"do", "call"}}, ready).error().text,
              HasSubstr("exited by signal 9; `use` restarts it"));
}

}  // namespace
}  // namespace mobula::internal::cli::repl
