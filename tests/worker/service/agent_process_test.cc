// run_worker as a process of its own, as the `mobula` program runs it.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>

#include "service_fixture.h"

namespace mobula::internal::worker {
namespace {

class AgentProcessTest : public ServiceTest {
 protected:
  ~AgentProcessTest() override {
    for (const pid_t pid : running_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  // `life`: read end of a pipe, or -1.
  pid_t start_agent(const std::string& log, int life = -1) {
    const std::string key = (folder_ / "test.key").string();
    EXPECT_TRUE(save(head_->key_file(), key));
    setenv("MOBULA_SERVICE_TEST", "agent", 1);
    std::vector<std::string> arguments{
        "agent",          head_->address(),           key,
        folder_.string(), (folder_ / "run").string(), std::to_string(life)};
    std::vector<char*> argv;
    for (auto& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string path = (folder_ / log).string();
    ::posix_spawn_file_actions_addopen(&actions, 1, path.c_str(), O_CREAT | O_WRONLY | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    unsetenv("MOBULA_SERVICE_TEST");
    running_.push_back(pid);
    return pid;
  }
  std::string text_of(const std::string& log) const {
    std::ifstream file(folder_ / log);
    return {(std::istreambuf_iterator<char>(file)), {}};
  }
  bool is_ready(const std::string& log) { return text_of(log).find("ready") != std::string::npos; }
  // The exit code, or 128 + signal.
  int end_of(pid_t pid) {
    int status = -1;
    EXPECT_TRUE(until([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }));
    std::erase(running_, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::filesystem::path agent_json() const { return folder_ / "agent" / "agent.json"; }
  static std::uint64_t resident_kib(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
    }
    return 0;
  }

  std::vector<pid_t> running_;
};

TEST_F(AgentProcessTest, LeavesAFileWhileItRunsAndEndsInOrder) {
  const pid_t agent = start_agent("log");
  ASSERT_TRUE(until([&] { return is_ready("log"); })) << text_of("log");
  const auto file = load_agent_file(agent_json().string()).value();
  EXPECT_EQ(file.pid, agent);
  EXPECT_EQ(file.head_address, head_->address());
  EXPECT_TRUE(connect_local(file.socket).ok());
  RecordProperty("resident_kib", static_cast<int>(resident_kib(agent)));
  ::kill(agent, SIGTERM);
  EXPECT_EQ(end_of(agent), 0) << text_of("log");
  EXPECT_FALSE(std::filesystem::exists(agent_json()));
  EXPECT_FALSE(std::filesystem::exists(file.socket));
  EXPECT_FALSE(head_->farewells().empty());
}

TEST_F(AgentProcessTest, KeepsItsNodeIdButNotItsIncarnation) {
  for (const char* log : {"first", "second"}) {
    const pid_t agent = start_agent(log);
    ASSERT_TRUE(until([&] { return is_ready(log); })) << text_of(log);
    ::kill(agent, SIGINT);
    EXPECT_EQ(end_of(agent), 0);
  }
  const Register& first = head_->registrations().front();
  const Register& second = head_->registrations().back();
  EXPECT_EQ(first.address.node, second.address.node);
  EXPECT_NE(first.address.incarnation, second.address.incarnation);
}

TEST_F(AgentProcessTest, ASecondOneInTheSameFolderSaysWhoHoldsIt) {
  const pid_t first = start_agent("first");
  ASSERT_TRUE(until([&] { return is_ready("first"); }));
  const pid_t second = start_agent("second");
  EXPECT_EQ(end_of(second), 1);
  EXPECT_NE(text_of("second").find("process " + std::to_string(first)), std::string::npos)
      << text_of("second");
}

TEST_F(AgentProcessTest, EndsWithWhoeverStartedIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Fd read(ends[0]);
  Fd write(ends[1]);
  ASSERT_EQ(::fcntl(write.get(), F_SETFD, FD_CLOEXEC), 0);
  const pid_t agent = start_agent("log", read.get());
  ASSERT_TRUE(until([&] { return is_ready("log"); })) << text_of("log");
  write.reset();
  EXPECT_EQ(end_of(agent), 0);
}

TEST_F(AgentProcessTest, AKeyThatTheHeadDoesNotKnowIsRefused) {
  head_->forget_agents_key();
  const pid_t agent = start_agent("log");
  EXPECT_EQ(end_of(agent), 4) << text_of("log");
}

}  // namespace
}  // namespace mobula::internal::worker
