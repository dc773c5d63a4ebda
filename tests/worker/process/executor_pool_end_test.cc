// Ends of executors, without any remaining process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "pool_fixture.h"

namespace mobula::internal::worker {
namespace {

using ::testing::HasSubstr;

std::vector<PidIdentity> processes_in(const std::string& pids) {
  std::istringstream words(pids);
  std::vector<PidIdentity> processes;
  for (pid_t pid = 0; words >> pid;) {
    const auto stat = read_stat(pid);
    EXPECT_TRUE(stat.has_value()) << pid;
    if (stat) processes.push_back(stat->identity);
  }
  return processes;
}

TEST_F(PoolTest, ReportsExitCode) {
  const ProcessId process = run(key());
  send(process, "exit 3");
  const ExitCause cause = end_of(process);
  EXPECT_EQ(cause.exit_code, 3);
  EXPECT_EQ(cause.signal, 0);
  EXPECT_FALSE(cause.requested);
  EXPECT_GT(cause.ran.count(), 0);
}

TEST_F(PoolTest, ReportsCrashWithItsSignal) {
  const ProcessId process = run(key());
  send(process, "crash");
  const ExitCause cause = end_of(process);
  EXPECT_EQ(cause.signal, SIGSEGV);
  EXPECT_THAT(cause.to_string(), HasSubstr("signal 11 (Segmentation fault)"));
}

TEST_F(PoolTest, KilledFromOutside_IsNotReportedAsOom) {
  const ProcessId process = run(key());
  ASSERT_TRUE(signal_process(started_.at(process), SIGKILL));
  const ExitCause cause = end_of(process);
  EXPECT_EQ(cause.signal, SIGKILL);
  EXPECT_FALSE(cause.requested);
  EXPECT_FALSE(cause.oom);
}

TEST_F(PoolTest, KillWithGrace_SendsSigtermFirst) {
  const ProcessId process = run(key());
  pool().kill(process, 60s);
  const ExitCause cause = end_of(process);
  EXPECT_EQ(cause.signal, SIGTERM);
  EXPECT_TRUE(cause.requested);
}

TEST_F(PoolTest, SigtermIgnored_KilledAfterGrace) {
  const ProcessId process = run(key());
  ASSERT_EQ(order(process, "ignore-term"), "done");
  pool().kill(process, 30ms);
  EXPECT_EQ(end_of(process).signal, SIGKILL);
}

TEST_F(PoolTest, Kill_EndsAllDescendants) {
  for (const bool fork_servers : {true, false}) {
    pool_.reset();
    options_.use_fork_servers = fork_servers;
    const ProcessId process = run(key());
    const auto left = processes_in(order(process, "leave-processes"));
    ASSERT_EQ(left.size(), 4u);
    for (const PidIdentity one : left) EXPECT_TRUE(is_running(one));
    pool().kill(process, Duration(0));
    end_of(process);
    for (const PidIdentity one : left) EXPECT_FALSE(is_running(one)) << one.pid;
  }
}

TEST_F(PoolTest, ExecutorCrashed_ChildrenEndBeforeReport) {
  const ProcessId process = run(key());
  const auto left = processes_in(order(process, "leave-processes"));
  send(process, "exit 1");
  end_of(process);
  for (const PidIdentity one : left) EXPECT_FALSE(is_running(one)) << one.pid;
}

TEST_F(PoolTest, SparesProcessesOfAnotherExecutor) {
  const ProcessId dying = run(key());
  const ProcessId living = run(key());
  const auto left = processes_in(order(living, "leave-processes"));
  pool().kill(dying, Duration(0));
  end_of(dying);
  for (const PidIdentity one : left) EXPECT_TRUE(is_running(one)) << one.pid;
  pool().kill(living, Duration(0));
  end_of(living);
  for (const PidIdentity one : left) EXPECT_FALSE(is_running(one)) << one.pid;
}

TEST_F(PoolTest, KillBeforeStart_FailsStart) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  const ProcessId process = start(key());
  pool().kill(process, Duration(0));
  EXPECT_THAT(failure_of(process), HasSubstr("asked to end"));
  // A requested fork starts, and is killed then.
  const ProcessId ready = run(key());
  const ProcessId requested = start(key());
  pool().kill(requested, Duration(0));
  EXPECT_TRUE(end_of(requested).requested);
  EXPECT_EQ(order(ready, "print x"), "done");
}

TEST_F(PoolTest, PoolDestroyed_EndsAllProcesses) {
  const ProcessId process = run(key());
  const auto left = processes_in(order(process, "leave-processes"));
  pool_.reset();
  EXPECT_FALSE(is_running(started_.at(process)));
  for (const PidIdentity one : left) EXPECT_FALSE(is_running(one)) << one.pid;
  EXPECT_TRUE(children_of(::getpid()).empty());
}

TEST_F(PoolTest, LinkClosed_ExecutorEnds) {
  const ProcessId process = run(key());
  links_.erase(process);
  EXPECT_EQ(end_of(process).exit_code, 0);
}

TEST_F(PoolTest, DeliversUnterminatedLastLine) {
  const ProcessId process = run(key());
  order(process, "print-unfinished half a line");
  send(process, "exit 0");
  end_of(process);
  EXPECT_EQ(output_[process], "half a line\n");
}

std::size_t own_memory_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8));
  }
  return 0;
}

TEST_F(PoolTest, GibibyteOfOutput_NeitherBlocksNorGrows) {
  auto log = CappedLog::open((directory_ / "slot.log").string());
  ASSERT_TRUE(log.ok());
  options_.on_output = [&](ProcessId, std::string_view lines) {
    output_bytes_ += lines.size();
    log->append(lines);
  };
  const ProcessId process = run(key());
  const std::size_t before = own_memory_kib();
  EXPECT_EQ(order(process, "flood 1073741824"), "done");
  send(process, "exit 0");
  end_of(process);
  EXPECT_EQ(output_bytes_, 1073741824u);
  // Sanitizers keep freed memory for a while.
  const std::size_t allowed_kib = sanitized ? 512 * 1024 : 16 * 1024;
  EXPECT_LT(own_memory_kib(), before + allowed_kib);
  const std::uintmax_t kept =
      std::filesystem::file_size(log->path()) + std::filesystem::file_size(log->path() + ".1");
  EXPECT_LE(kept, 2 * CappedLog::default_max_bytes);
  EXPECT_EQ(log->lost_bytes(), 0u);
}

TEST_F(PoolTest, ListsRunningExecutorsInTable) {
  auto table = ExecutorTable::create((directory_ / "processes").string());
  ASSERT_TRUE(table.ok());
  options_.table = &*table;
  const ProcessId process = run(key());
  EXPECT_EQ(table->size(), 1u);
  send(process, "exit 0");
  end_of(process);
  EXPECT_EQ(table->size(), 0u);
  pool_.reset();
}

}  // namespace
}  // namespace mobula::internal::worker
