// A simulated machine with GPUs, for one test: its folder, the words that configure it, and processes on it. The
// test process itself never touches the simulated libraries, so that it may fork.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include "gpu/device_uuid.h"

namespace mobula::internal {

struct ProcessEnd {
  bool ok = false;       // it ran to its end, and no expectation failed
  bool aborted = false;  // as a misuse ends it
  std::string said;      // what it wrote to its standard error
};

class SimulatedMachine {
 public:
  // `words`: as MOBULA_SIMULATED_GPU has them, without the folder.
  explicit SimulatedMachine(std::string words = {}) : words_(std::move(words)) {
    struct statvfs room {};
    const bool memory = ::statvfs("/dev/shm", &room) == 0 &&
                        room.f_bavail * room.f_frsize > (std::uint64_t{2} << 30);
    folder_ = (memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string()) +
              "/simulated-XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  ~SimulatedMachine() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;

  const std::string& folder() const { return folder_; }
  // The value of MOBULA_SIMULATED_GPU, with `more` words besides.
  std::string environment(const std::string& more = {}) const {
    return "folder=" + folder_ + " " + words_ + " " + more;
  }
  // Makes the calling process one of this machine's.
  void enter(const std::string& more = {}) const {
    ::setenv("MOBULA_SIMULATED_GPU", environment(more).c_str(), 1);
    ::setenv("MOBULA_CUDA_LIBRARY", SIMULATED_CUDA, 1);
    ::setenv("MOBULA_NVML_LIBRARY", SIMULATED_NVML, 1);
#ifdef SIMULATED_NCCL
    ::setenv("MOBULA_NCCL_LIBRARY", SIMULATED_NCCL, 1);
#endif
  }

  // Runs a function in a process of its own, to its end.
  ProcessEnd run(const std::function<void()>& body, const std::string& more = {}) const {
    return finish(start(body, more));
  }
  struct Running {
    pid_t process = -1;
    int said = -1;
  };
  Running start(const std::function<void()>& body, const std::string& more = {}) const {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    std::fflush(nullptr);
    const pid_t process = ::fork();
    if (process == 0) {
      ::close(ends[0]);
      ::dup2(ends[1], STDERR_FILENO);
      ::dup2(ends[1], STDOUT_FILENO);
      ::alarm(60);
      enter(more);
      body();
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(ends[1]);
    return {process, ends[0]};
  }
  static ProcessEnd finish(const Running& of) {
    ProcessEnd end;
    char text[4096];
    for (ssize_t count = 0; (count = ::read(of.said, text, sizeof text)) > 0;) {
      end.said.append(text, static_cast<std::size_t>(count));
    }
    ::close(of.said);
    int status = 0;
    ::waitpid(of.process, &status, 0);
    end.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    end.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    return end;
  }

 private:
  std::string words_;
  std::string folder_;
};

// A process of a test ran to its end without a failed expectation.
#define EXPECT_RUNS(machine, ...)                          \
  do {                                                     \
    const auto ended_process = (machine).run(__VA_ARGS__); \
    EXPECT_TRUE(ended_process.ok) << ended_process.said;   \
  } while (false)

}  // namespace mobula::internal
