// An agent in its own process, as the `mobula` program runs it (see main.cc).
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "service_fixture.h"

namespace mobula::internal::worker {

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
    const std::string key = (directory_ / "test.key").string();
    EXPECT_TRUE(save(head_->key_file(), key));
    setenv("MOBULA_SERVICE_TEST", "agent", 1);
    std::vector<std::string> arguments{"agent",
                                       head_->address(),
                                       key,
                                       directory_.string(),
                                       (directory_ / "run").string(),
                                       std::to_string(life)};
    std::vector<char*> argv;
    for (auto& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string path = (directory_ / log).string();
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
    std::ifstream file(directory_ / log);
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
  std::filesystem::path agent_json() const { return directory_ / "agent" / "agent.json"; }
  static std::uint64_t resident_kib(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
    }
    return 0;
  }

  std::vector<pid_t> running_;
};

}  // namespace mobula::internal::worker
