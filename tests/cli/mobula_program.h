// Runs the program `mobula` with a private state directory, and returns its output and exit code.
// Thread: the test thread.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time.h"

extern "C" char** environ;

namespace mobula::internal {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

inline const std::string program = MOBULA_BINARY_DIR "/bin/mobula";

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
  Json json() const { return Json::parse(out, nullptr, false); }
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Polls the condition for at most 20 s. Returns its last value.
inline bool until(const std::function<bool()>& condition) {
  const Time deadline = monotonic_now() + 20s;
  while (!condition() && monotonic_now() < deadline) ::poll(nullptr, 0, 10);
  return condition();
}

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    char name[] = "/tmp/mobula-cli-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    ::setenv("MOBULA_STATE_DIR", state().c_str(), 1);
    ::unsetenv("MOBULA_ADDRESS");
    ::unsetenv("MOBULA_KEY_FILE");
  }
  ~ProgramTest() override {
    mobula({"stop", "--grace", "0"});
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  std::string state() const { return directory_ + "/state"; }
  std::string cluster_dir() const { return state() + "/default"; }

  Outcome mobula(std::vector<std::string> words) {
    words.insert(words.begin(), program);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = directory_ + "/out";
    const std::string err = directory_ + "/err";
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out),
            text_of(err)};
  }
  Outcome start_head() { return mobula({"start", "--head", "--num-cpus", "2", "-o", "json"}); }

  std::string directory_;
};

// Expects one line that names the program and no position in the source.
inline void expect_one_line(const Outcome& outcome, const std::string& named) {
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("mobula: ")) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(named));
}

}  // namespace mobula::internal
