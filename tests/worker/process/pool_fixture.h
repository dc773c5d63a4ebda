// A pool with real processes; the test plays their agent.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sanitizers.h"
#include "worker/process/pool/executor_pool.h"

namespace mobula::internal::worker {

inline constexpr bool can_fork = !has_thread_sanitizer;
inline constexpr const char* no_fork = "the thread sanitizer adds a thread to every program";

class PoolTest : public ::testing::Test {
 protected:
  PoolTest() {
    for (char** entry = ::environ; *entry != nullptr; ++entry)
      options_.environment.push_back(*entry);
    options_.on_output = [this](ProcessId process, std::string_view lines) {
      ASSERT_TRUE(lines.ends_with('\n'));
      output_bytes_ += lines.size();
      if (output_bytes_ < 1u << 20) output_[process] += lines;
    };
    directory_ = std::filesystem::temp_directory_path() /
                 ("mobula-process-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
  }
  ~PoolTest() override {
    pool_.reset();
    links_.clear();
    std::filesystem::remove_all(directory_);
  }

  ExecutorPool& pool() {
    if (!pool_) pool_ = ExecutorPool::create(options_).value();
    return *pool_;
  }

  ForkServerKey key(std::string mode = "plain") const {
    return ForkServerKey{USER_PROGRAM,
                         {"user", std::move(mode), "second argument"},
                         {{"JOB_VARIABLE", "of the job"}, {"CUDA_VISIBLE_DEVICES", ""}},
                         directory_.string(),
                         (directory_ / "scratch").string()};
  }

  ProcessId start(ForkServerKey fork_server, std::vector<EnvironmentVariable> environment = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    const ProcessId process = ProcessId::of(++last_process_);
    links_[process] = Fd(ends[0]);
    pool().start({process, SlotId::of(77), std::move(fork_server), std::move(environment),
                  Fd(ends[1]), 4711});
    return process;
  }

  // Serves the pool until `done`; false after 60 s.
  bool serve_until(const std::function<bool()>& done, int also_wakes = -1) {
    const Time deadline = monotonic_now() + 60s;
    while (!done()) {
      if (monotonic_now() > deadline) return false;
      std::array ready{pollfd{pool().poll_fd(), POLLIN, 0}, pollfd{also_wakes, POLLIN, 0}};
      ::poll(ready.data(), ready.size(), 1000);
      std::vector<PoolEvent> events;
      pool().on_readable(events);
      for (PoolEvent& event : events) note(std::move(event));
    }
    return true;
  }

  // The next packet on a link, while the pool is served.
  std::string receive(ProcessId process) {
    std::string packet(16 * 1024, '\0');
    ssize_t size = -1;
    const int link = links_.at(process).get();
    EXPECT_TRUE(serve_until(
        [&] {
          size = ::recv(link, packet.data(), packet.size(), MSG_DONTWAIT);
          return size >= 0;
        },
        link));
    packet.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return packet;
  }
  void send(ProcessId process, const std::string& command) {
    EXPECT_EQ(::send(links_.at(process).get(), command.data(), command.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(command.size()));
  }
  std::string order(ProcessId process, const std::string& command) {
    send(process, command);
    return receive(process);
  }

  // Starts an executor and receives its first packet.
  ProcessId run(ForkServerKey fork_server, std::vector<EnvironmentVariable> environment = {}) {
    const ProcessId process = start(std::move(fork_server), std::move(environment));
    EXPECT_TRUE(
        serve_until([&] { return started_.contains(process) || failed_.contains(process); }));
    EXPECT_FALSE(failed_.contains(process)) << failed_[process];
    if (started_.contains(process)) {
      EXPECT_EQ(receive(process), "hello");
    }
    return process;
  }
  ExitCause end_of(ProcessId process) {
    EXPECT_TRUE(serve_until([&] { return exited_.contains(process); }));
    return exited_[process];
  }
  std::string failure_of(ProcessId process) {
    EXPECT_TRUE(serve_until([&] { return failed_.contains(process); }));
    return failed_[process];
  }

  PoolOptions options_;
  std::unique_ptr<ExecutorPool> pool_;
  std::filesystem::path directory_;
  std::map<ProcessId, Fd> links_;
  std::map<ProcessId, std::string> output_;
  std::size_t output_bytes_ = 0;
  std::map<ProcessId, PidIdentity> started_;
  std::map<ProcessId, std::string> failed_;
  std::map<ProcessId, bool> cannot_run_;
  std::map<ProcessId, ExitCause> exited_;
  std::uint64_t last_process_ = 0;

 private:
  void note(PoolEvent event) {
    if (const auto* started = std::get_if<PoolStarted>(&event))
      started_[started->process] = started->identity;
    if (const auto* failed = std::get_if<PoolStartFailed>(&event)) {
      failed_[failed->process] = failed->reason;
      cannot_run_[failed->process] = failed->cannot_run;
    }
    if (const auto* exited = std::get_if<PoolExited>(&event))
      exited_[exited->process] = exited->cause;
  }
};

inline std::size_t open_fds() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace mobula::internal::worker
