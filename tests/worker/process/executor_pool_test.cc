// Starts of executors, and their environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <sstream>

#include "pool_fixture.h"

namespace mobula::internal::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The description without intended differences.
std::string common_part(const std::string& description) {
  std::istringstream lines(description);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("env MOBULA_PROCESS=")) kept += line + "\n";
  }
  return kept;
}

TEST_F(PoolTest, ForkedAndDirectStarts_SeeTheSame) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  const std::vector<EnvironmentVariable> masks{{"CUDA_VISIBLE_DEVICES", "3"},
                                               {"TASK_VARIABLE", "t"}};
  const std::string forked = order(run(key(), masks), "describe");
  pool_.reset();
  options_.use_fork_servers = false;
  const std::string direct = order(run(key(), masks), "describe");

  EXPECT_EQ(common_part(forked), common_part(direct));
  EXPECT_THAT(
      forked,
      AllOf(HasSubstr("env CUDA_VISIBLE_DEVICES=3\n"), HasSubstr("env JOB_VARIABLE=of the job\n"),
            HasSubstr("env TASK_VARIABLE=t\n"), HasSubstr("argument plain\n"),
            HasSubstr("argument second argument\n"), HasSubstr("folder " + directory_.string()),
            HasSubstr("own session 1\n"), HasSubstr("seed 4711\n"), HasSubstr("stdin /dev/null\n"),
            HasSubstr("stdout is pipe:\n"), HasSubstr("stdout is stderr 1\n"),
            HasSubstr("death signal 9\n")));
  EXPECT_THAT(forked, AllOf(HasSubstr("SigBlk:\t0000000000000000\n"),
                            HasSubstr("SigIgn:\t0000000000000000\n"), Not(HasSubstr("_FD="))));
  EXPECT_THAT(forked, HasSubstr("env MOBULA_SLOT=" + SlotId::of(77).hex()));
}

TEST_F(PoolTest, RunsExecutorAsMarkedChildOfAgent) {
  const ProcessId process = run(key());
  const PidIdentity identity = started_.at(process);
  EXPECT_EQ(read_stat(identity.pid)->parent, ::getpid());
  EXPECT_EQ(environment_of(identity.pid, "MOBULA_PROCESS"), process.hex());
  EXPECT_EQ(environment_of(identity.pid, "MOBULA_SLOT"), SlotId::of(77).hex());
}

TEST_F(PoolTest, SharesForkServerAmongEqualKeys) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  run(key());
  run(key());
  ForkServerKey other = key();
  other.environment.emplace_back("OMP_NUM_THREADS", "2");
  run(other);
  const auto views = pool().fork_servers();
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].state, "ready");
}

TEST_F(PoolTest, SeparatesForkServersOfJobs) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  ForkServerKey one = key();
  one.job = JobId::of(1);
  ForkServerKey two = key();
  two.job = JobId::of(2);
  run(one);
  run(two);
  EXPECT_EQ(pool().fork_servers().size(), 2u);
}

TEST_F(PoolTest, MissingWorkingDirectory_UsesScratch) {
  ForkServerKey elsewhere = key();
  elsewhere.working_directory = "/no/such/folder";
  EXPECT_THAT(order(run(elsewhere), "describe"),
              HasSubstr("folder " + (directory_ / "scratch").string()));
}

TEST_F(PoolTest, ThreadsBeforeInit_UseExecWithReason) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  const ProcessId process = run(key("thread"));
  EXPECT_THAT(order(process, "describe"), HasSubstr("own session 1\n"));
  const auto views = pool().fork_servers();
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].state, "exec");
  EXPECT_THAT(views[0].refusal, HasSubstr("2 threads run before init"));
  run(key("thread"));
}

TEST_F(PoolTest, ForkedExecutor_RepeatsNoUnflushedOutput) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  const ProcessId process = run(key("unflushed"));
  order(process, "print of the task");
  send(process, "exit 0");
  end_of(process);
  EXPECT_EQ(output_[process], "of the task\n");
}

TEST_F(PoolTest, ForkServerKilled_IsReplaced) {
  if (!can_fork) GTEST_SKIP() << no_fork;
  const ProcessId first = run(key());
  std::vector<PidIdentity> fork_servers;
  for (const PidIdentity process : descendants_of(::getpid())) {
    if (process != started_.at(first)) fork_servers.push_back(process);
  }
  ASSERT_EQ(fork_servers.size(), 1u);
  ASSERT_TRUE(signal_process(fork_servers[0], SIGKILL));
  // The pool is not served in between, so this request may reach a dead fork server.
  const ProcessId second = run(key());
  EXPECT_EQ(order(second, "print again"), "done");
  EXPECT_EQ(order(first, "print the first one runs on"), "done");
}

TEST_F(PoolTest, ProgramLoadFailed_ReportsLoaderMessage) {
  ForkServerKey unloadable = key();
  unloadable.program = UNLOADABLE_PROGRAM;
  EXPECT_THAT(failure_of(start(unloadable)),
              AllOf(HasSubstr("libprocess_test_absent.so: cannot open shared object file"),
                    HasSubstr("exit code 127"), HasSubstr(UNLOADABLE_PROGRAM)));
  options_.use_fork_servers = false;
  pool_.reset();
  EXPECT_THAT(failure_of(start(unloadable)), HasSubstr("cannot open shared object file"));
}

TEST_F(PoolTest, ProgramMissing_FailsWithItsPath) {
  ForkServerKey absent = key();
  absent.program = "/no/such/program";
  const ProcessId process = start(absent);
  EXPECT_THAT(failure_of(process), HasSubstr("cannot run /no/such/program: No such file"));
  EXPECT_TRUE(cannot_run_[process]);
}

TEST_F(PoolTest, EnvironmentTooLarge_IsNotBlamedOnProgram) {
  ForkServerKey large = key();
  large.environment.emplace_back("LARGE", std::string(1u << 20, 'x'));
  for (const bool fork_servers : {true, false}) {
    options_.use_fork_servers = fork_servers;
    pool_.reset();
    const ProcessId process = start(large);
    EXPECT_THAT(failure_of(process), HasSubstr("Argument list too long"));
    EXPECT_FALSE(cannot_run_[process]);
  }
}

TEST_F(PoolTest, ExitsBeforeInit_ReportsProgramOutput) {
  EXPECT_THAT(failure_of(start(key("early-exit"))),
              AllOf(HasSubstr("exit code 4"), HasSubstr("before it reached mobula::init"),
                    HasSubstr("no license found")));
  options_.use_fork_servers = false;
  pool_.reset();
  EXPECT_THAT(failure_of(start(key("early-exit"))), HasSubstr("no license found"));
  EXPECT_THAT(failure_of(start(key("returns"))), HasSubstr("exit code 0"));
}

TEST_F(PoolTest, InitNeverReached_KilledAtTimeout) {
  options_.start_timeout = 50ms;
  EXPECT_THAT(failure_of(start(key("never-init"))), HasSubstr("did not reach mobula::init within"));
  options_.use_fork_servers = false;
  pool_.reset();
  EXPECT_THAT(failure_of(start(key("never-init"))), HasSubstr("did not reach mobula::init within"));
}

TEST_F(PoolTest, RejectsSecondStartWithSameId) {
  const ProcessId process = run(key());
  pool().start({process, SlotId::of(1), key(), {}, Fd(), 0});
  EXPECT_THAT(failure_of(process), HasSubstr("in use"));
}

TEST_F(PoolTest, AtLimit_ReplacesLongestUnusedForkServer) {
  options_.max_fork_servers = 2;
  std::vector<ForkServerKey> keys;
  for (const char* name : {"a", "b", "c"}) {
    keys.push_back(key());
    keys.back().environment.emplace_back("WHICH", name);
    EXPECT_EQ(order(run(keys.back()), "print x"), "done");
  }
  EXPECT_EQ(pool().fork_servers().size(), 2u);
  run(keys[0]);
}

TEST_F(PoolTest, RetiredForkServer_ServesPendingAndExits) {
  const ProcessId process = start(key());
  pool().retire(key());
  EXPECT_EQ(receive(process), "hello");
  EXPECT_TRUE(pool().fork_servers().empty());
  EXPECT_TRUE(serve_until([&] { return children_of(::getpid()).size() == 1; }));
  EXPECT_EQ(order(process, "print x"), "done");
  EXPECT_EQ(order(run(key()), "print a new fork server"), "done");
}

TEST_F(PoolTest, TwoHundredExecutors_LeaveNoFdOrZombie) {
  run(key());
  pool_.reset();
  links_.clear();
  const std::size_t before = open_fds();
  for (int round = 0; round < 10; ++round) {
    std::vector<ProcessId> all;
    for (int i = 0; i < 20; ++i) all.push_back(start(key()));
    for (const ProcessId process : all) EXPECT_EQ(receive(process), "hello");
    for (const ProcessId process : all) send(process, "exit 0");
    for (const ProcessId process : all) end_of(process);
    links_.clear();
  }
  EXPECT_EQ(pool().size(), 0u);
  pool_.reset();
  EXPECT_EQ(open_fds(), before);
  EXPECT_TRUE(children_of(::getpid()).empty());
}

// Prints times. Asserts none, because the machine may be busy.
TEST_F(PoolTest, MeasuresStarts) {
  run(key());
  for (const bool fork_servers : {true, false}) {
    pool_.reset();
    options_.use_fork_servers = fork_servers;
    run(key());
    std::vector<double> times;
    for (int i = 0; i < 50; ++i) {
      const Time begun = monotonic_now();
      const ProcessId process = start(key());
      ASSERT_EQ(receive(process), "hello");
      times.push_back(static_cast<double>((monotonic_now() - begun).count()) / 1e6);
    }
    std::sort(times.begin(), times.end());
    std::printf("%s: from request to the executor's first message: median %.3f ms, best %.3f ms\n",
                fork_servers ? "fork" : "exec", times[times.size() / 2], times.front());
  }
}

}  // namespace
}  // namespace mobula::internal::worker
