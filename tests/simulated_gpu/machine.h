// A simulated machine with GPUs for one test: its directory, its settings, and processes on it. The
// test process itself never uses the simulated libraries, so it may fork.
// Thread: owner.
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

#include "device/gpu/device_uuid.h"

namespace mobula::internal {

struct ProcessEnd {
  bool ok = false;       // ran to its end without a failed expectation
  bool aborted = false;  // ended by abort, as after misuse
  std::string said;      // standard error
};

class SimulatedMachine {
 public:
  // `words`: settings of MOBULA_SIMULATED_GPU, without the directory.
  explicit SimulatedMachine(std::string words = {}) : words_(std::move(words)) {
    struct statvfs space {};
    const bool memory = ::statvfs("/dev/shm", &space) == 0 &&
                        space.f_bavail * space.f_frsize > (std::uint64_t{2} << 30);
    directory_ =
        (memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string()) +
        "/simulated-XXXXXX";
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  ~SimulatedMachine() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;

  const std::string& directory() const { return directory_; }
  // Value of MOBULA_SIMULATED_GPU with the additional settings `more`.
  std::string environment(const std::string& more = {}) const {
    return "directory=" + directory_ + " " + words_ + " " + more;
  }
  // Makes the calling process a process of this machine.
  void enter(const std::string& more = {}) const {
    ::setenv("MOBULA_SIMULATED_GPU", environment(more).c_str(), 1);
    ::setenv("MOBULA_CUDA_LIBRARY", SIMULATED_CUDA, 1);
    ::setenv("MOBULA_NVML_LIBRARY", SIMULATED_NVML, 1);
#ifdef SIMULATED_NCCL
    ::setenv("MOBULA_NCCL_LIBRARY", SIMULATED_NCCL, 1);
#endif
  }

  // Runs a function in a separate process and waits for its end.
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
  std::string directory_;
};

// Expects that a test process runs to its end without a failed expectation.
#define EXPECT_RUNS(machine, ...)                          \
  do {                                                     \
    const auto ended_process = (machine).run(__VA_ARGS__); \
    EXPECT_TRUE(ended_process.ok) << ended_process.said;   \
  } while (false)

}  // namespace mobula::internal
