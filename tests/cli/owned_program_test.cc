// The program `mobula` as another process starts it: it reports when it is ready, or cannot be, and
// ends with the process that started it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "cli/mobula_program.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal {
namespace {

// A program that exits when its pipe closes, as mobula::init starts it.
class OwnedProgram {
 public:
  explicit OwnedProgram(std::vector<std::string> words) {
    int ready[2];
    int life[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(life, O_CLOEXEC), 0);
    ready_ = Fd(ready[0]);
    life_ = Fd(life[1]);
    const Fd ready_write(ready[1]);
    const Fd life_read(life[0]);
    words.insert(words.begin(), program);
    if (words[2] == "--head" || words.back() == "--driver-agent") {
      words.insert(words.end(), {"--ready-fd", "200", "--life-fd", "201"});
    }
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ready_write.get(), 200);
    ::posix_spawn_file_actions_adddup2(&actions, life_read.get(), 201);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;
  ~OwnedProgram() {
    if (pid_ != 0) end();
  }

  // Reads the line that reports readiness or failure.
  Json ready() {
    char line[4096] = {};
    EXPECT_GT(::read(ready_.get(), line, sizeof line - 1), 0);
    return Json::parse(line, nullptr, false);
  }
  void signal(int number) const { ::kill(pid_, number); }
  int end() {
    life_.reset();
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WEXITSTATUS(status);
  }

 private:
  Fd ready_;
  Fd life_;
  pid_t pid_ = 0;
};

bool is_locked(const std::string& path) {
  const Fd lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
}

// Starts it as mobula::init does on a machine without an agent.
TEST_F(ProgramTest, DriverWithoutAgent_StartsItsOwn) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  OwnedProgram agent({"start", "--address", started.json()["address"], "--key",
                      started.json()["key_file"], "--driver-agent"});
  const Json report = agent.ready();
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.value("address", ""), started.json()["address"]);
  EXPECT_TRUE(fs::exists(report.value("socket", "")));
  // The agent offers no resources.
  EXPECT_EQ(mobula({"list", "nodes", "-o", "json"}).json()["items"].size(), 1u);
  EXPECT_EQ(agent.end(), 0);
  EXPECT_FALSE(fs::exists(report.value("socket", "")));
}

TEST_F(ProgramTest, StarterExited_StartIsAbandoned) {
  const auto started = mobula({"start", "--head", "--no-worker", "-o", "json"});
  ASSERT_EQ(started.code, 0) << started.err;
  const std::string key = directory_ + "/copy.key";
  ASSERT_TRUE(save(load_key_file(started.json()["key_file"]).value(), key).ok());
  ASSERT_EQ(mobula({"stop"}).code, 0);
  const std::string joining = directory_ + "/joining";
  OwnedProgram start(
      {"start", "--address", started.json()["address"], "--key", key, "--state-dir", joining});
  // The agent holds its lock once it runs in the background.
  const std::string lock = joining + "/default/agent/lock";
  ASSERT_TRUE(until([&] { return fs::exists(lock) && is_locked(lock); }));
  start.signal(SIGKILL);
  EXPECT_TRUE(until([&] { return !is_locked(lock); }));
}

TEST_F(ProgramTest, OperatorKey_DoesNotAdmitDriver) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  OwnedProgram agent({"start", "--address", started.json()["address"], "--key",
                      cluster_dir() + "/head/operator.key", "--expect-head", "--driver-agent"});
  EXPECT_THAT(agent.ready().value("error", ""), HasSubstr("token create --role driver"));
}

// Starts it as mobula::init does.
TEST_F(ProgramTest, LocalCluster_EndsWithItsDriver) {
  OwnedProgram local({"start", "--head", "--local", "--num-cpus", "1"});
  const Json report = local.ready();
  ASSERT_TRUE(report.is_object());
  EXPECT_THAT(report.value("address", ""), HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(fs::exists(report.value("socket", "")));
  EXPECT_EQ(local.end(), 0);
  EXPECT_FALSE(fs::exists(report.value("socket", "")));
}

TEST_F(ProgramTest, LocalStartFailed_ReportsReason) {
  ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  OwnedProgram local({"start", "--head", "--local", "--num-cpus", "1", "--num-gpus", "4"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const Json report = local.ready();
  ASSERT_TRUE(report.is_object());
  EXPECT_THAT(report.value("error", ""), HasSubstr("CUDA_VISIBLE_DEVICES"));
}

}  // namespace
}  // namespace mobula::internal
