// Commands: each under its own job shim, so that none of its processes escapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "pool_fixture.h"
#include "worker/process/job_shim.h"

namespace mobula::internal::worker {
namespace {

using ::testing::HasSubstr;

class CommandTest : public PoolTest {
 protected:
  CommandTest() {
    options_.job_shim = {JOB_SHIM_PROGRAM};
    // Unsplit output: a command's output is not divided into lines.
    options_.on_output = [this](ProcessId process, std::string_view bytes) {
      output_[process] += bytes;
    };
  }

  ProcessId start_shell(const std::string& text, Duration grace = {},
                        std::vector<EnvironmentVariable> environment = {}) {
    return start_command({"/bin/sh", "-c", text}, grace, std::move(environment));
  }
  ProcessId start_command(std::vector<std::string> argv, Duration grace = {},
                          std::vector<EnvironmentVariable> environment = {}) {
    const ProcessId process = ProcessId::of(++last_process_);
    ExecutorStart what;
    what.process = process;
    what.slot = SlotId::of(77);
    what.environment = std::move(environment);
    what.command = CommandStart{std::move(argv), directory_.string(), true, {}, grace};
    pool().start(std::move(what));
    return process;
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  // Leaves a process behind with its own session, an empty environment, and another parent, and
  // writes its pid to a file. `first`: its commands before it sleeps.
  std::string detaches(const std::string& name, const std::string& first = "") const {
    std::ofstream(path(name + ".sh"))
        << first << "\necho $$ > " << path(name) << ".pid && /bin/mv " << path(name) << ".pid "
        << path(name) << "\nwhile :; do /bin/sleep 0.05; done\n";
    return "/usr/bin/setsid /usr/bin/env -i /bin/sh -c '/usr/bin/setsid /usr/bin/env -i /bin/sh " +
           path(name + ".sh") + " </dev/null >/dev/null 2>&1 & exit 0'; ";
  }
  PidIdentity detached(const std::string& name) {
    pid_t pid = 0;
    EXPECT_TRUE(serve_until([&] {
      std::ifstream file(path(name));
      return static_cast<bool>(file >> pid);
    }));
    const auto stat = read_stat(pid);
    EXPECT_TRUE(stat.has_value());
    EXPECT_FALSE(environment_of(pid, "MOBULA_PROCESS")) << "it has cleared its environment";
    return stat ? stat->identity : PidIdentity{};
  }
  static pid_t job_shim_of(PidIdentity command) { return read_stat(command.pid)->parent; }
};

TEST_F(CommandTest, ReportsExitCodeSignalAndOutput) {
  const ProcessId code = start_shell("echo to here; echo and >&2; exit 3");
  EXPECT_EQ(end_of(code).exit_code, 3);
  EXPECT_EQ(output_[code], "to here\nand\n");
  const ProcessId signal = start_shell("kill -SEGV $$");
  EXPECT_EQ(end_of(signal).signal, SIGSEGV);
  const ProcessId absent = start_command({"/no/such/program"});
  EXPECT_EQ(end_of(absent).exit_code, 127);
  EXPECT_THAT(output_[absent], HasSubstr("cannot run /no/such/program: No such file"));
}

TEST_F(CommandTest, SeesEnvironmentOfDirectStart) {
  const ProcessId process = start_shell(
      "echo $COLOUR $MOBULA_SLOT; pwd; readlink /proc/self/fd/0; ls /proc/$$/fd | tr '\\n' ' '; "
      "grep -E 'Sig(Blk|Ign)' /proc/self/status",
      {},
      {{"COLOUR", "blue"},
       {"LONG", std::string(100'000, 'x')},
       {"LONGER", std::string(120'000, 'y')}});
  EXPECT_EQ(end_of(process).exit_code, 0) << "an environment larger than a packet";
  EXPECT_THAT(output_[process], HasSubstr("blue " + SlotId::of(77).hex() + "\n" +
                                          directory_.string() + "\n/dev/null\n0 1 2 "));
  EXPECT_THAT(output_[process],
              HasSubstr("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"));
}

TEST_F(CommandTest, KillsDetachedProcessesOfThatCommandOnly) {
  const ProcessId goes_on = start_shell(detaches("kept") + "while :; do sleep 0.05; done");
  const PidIdentity kept = detached("kept");
  const ProcessId ends = start_shell(detaches("left") + "while ! test -e " + path("go") +
                                     "; do sleep 0.02; done; exit 4");
  const PidIdentity left = detached("left");
  EXPECT_TRUE(is_running(left));
  std::ofstream(path("go")) << "x";
  EXPECT_EQ(end_of(ends).exit_code, 4);
  EXPECT_FALSE(is_running(left)) << "its end is only told when nothing is left";
  EXPECT_TRUE(is_running(kept)) << "the command continues";
  EXPECT_FALSE(exited_.contains(goes_on));

  const ProcessId stopped = start_shell(detaches("far") + "while :; do sleep 0.05; done");
  const PidIdentity far = detached("far");
  pool().kill(stopped, Duration(0));
  EXPECT_EQ(end_of(stopped).signal, SIGKILL);
  EXPECT_FALSE(is_running(far));
  EXPECT_TRUE(is_running(kept));
  pool().kill(goes_on, Duration(0));
  end_of(goes_on);
  EXPECT_FALSE(is_running(kept));
}

TEST_F(CommandTest, DetachedProcesses_GetSigtermAndGrace) {
  const std::string notes = "trap 'echo told >> " + path("told") + "; exit 0' TERM";
  const auto signals = [&] {
    std::ifstream file(path("told"));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const ProcessId left = start_shell(
      detaches("one", notes) + "while ! test -e " + path("one") + "; do sleep 0.02; done", 30s);
  end_of(left);
  EXPECT_EQ(signals(), "told\n") << "left behind by a command that ended by itself";
  const ProcessId stopped =
      start_shell(detaches("two", notes) + "trap 'exit 0' TERM; while :; do sleep 0.05; done", 30s);
  detached("two");
  pool().kill(stopped, 30s);
  end_of(stopped);
  EXPECT_EQ(signals(), "told\ntold\n");
  const ProcessId deaf = start_shell(detaches("three", "trap '' TERM") + "exec sleep 600", 30s);
  const PidIdentity three = detached("three");
  pool().kill(deaf, 100ms);
  end_of(deaf);
  EXPECT_FALSE(is_running(three));
}

// A command can signal its parent, which has the same user.
TEST_F(CommandTest, ShimKilledByCommand_CommandEnds) {
  const ProcessId process = start_shell(
      "kill -TERM $PPID; echo still here; kill -KILL $PPID; while :; do sleep 0.05; done");
  EXPECT_EQ(end_of(process).signal, SIGKILL);
  EXPECT_EQ(output_[process], "still here\n") << "a request to end is not for the shim";
  EXPECT_FALSE(is_running(started_.at(process)));
}

TEST_F(CommandTest, StoppedBeforeShimReports_CommandEnds) {
  const ProcessId process = start_shell("while :; do sleep 0.05; done");
  pool().kill(process, 30s);
  EXPECT_EQ(end_of(process).signal, SIGKILL);
}

TEST_F(CommandTest, ShimCannotRun_ReportsItsOutput) {
  options_.job_shim = {"/no/such/shim"};
  EXPECT_THAT(failure_of(start_shell("true")), HasSubstr("cannot run /no/such/shim: No such file"));
}

// Agent and agent shim may be killed at once; then only the job shim is left.
TEST_F(CommandTest, AgentAndShimKilled_JobShimEndsTree) {
  JobShimRequest order;
  order.program = "/bin/sh";
  order.argv = {"sh", "-c", detaches("orphan") + "while :; do sleep 0.05; done"};
  order.environment = options_.environment;
  order.working_directory = directory_.string();
  const Fd output(::dup(STDERR_FILENO));
  auto job_shim = start_job_shim({JOB_SHIM_PROGRAM}, options_.environment, order, output.get());
  ASSERT_TRUE(job_shim.ok()) << job_shim.error().text;
  const PidIdentity orphan = detached("orphan");
  const auto below = descendants_of(job_shim->identity.pid);
  EXPECT_GE(below.size(), 2u);
  job_shim->control.reset();
  pollfd ended{job_shim->pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 60'000), 1);
  EXPECT_FALSE(is_running(orphan));
  for (const PidIdentity& each : below) EXPECT_FALSE(is_running(each));
  EXPECT_EQ(reap_child(job_shim->identity.pid)->exit_code, 0);
}

}  // namespace
}  // namespace mobula::internal::worker
