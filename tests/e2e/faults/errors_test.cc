// Texts and causes of errors, and the calls that cancellation ends.
#include <sys/stat.h>

#include <csignal>
#include <sstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Errors = ClusterTest;

TEST_F(Errors, EndsBlockedCallsWhenTaskIsCancelled) {
  drive({"cancels_blocked", "--mobula-num-cpus=4"});
}

TEST_F(Errors, BlockedCalls_WarnWithReason) {
  Process driver = start_driver({"blocks_in_calls", "--mobula-num-cpus=2"});
  for (const char* text : {"wait has blocked for 3 s: 0 of 2 are ready; the first of the others: "
                           "task mobula::e2e::until_cancelled ",
                           "get has blocked for 3 s: task mobula::e2e::until_cancelled ",
                           "get has blocked for 3 s: task mobula::e2e::(anonymous namespace)::"
                           "vector_until_cancelled ",
                           "take has blocked for 3 s: 1 outstanding; the first: task "
                           "mobula::e2e::until_cancelled "}) {
    EXPECT_TRUE(eventually(Milliseconds(20'000),
                           [&] { return driver.err().find(text) != std::string::npos; }))
        << text << "\n"
        << driver.err();
  }
  driver.say("end");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  int warnings = 0;
  for (auto at = ended.err.find("has blocked for"); at != std::string::npos; ++warnings)
    at = ended.err.find("has blocked for", at + 1);
  EXPECT_EQ(warnings, 4) << "one for each call: " << ended.err;
}

// No process reads the pipe to which the driver's stderr leads, as in `2>&1 | less`.
TEST_F(Errors, StderrUnread_DriverContinues) {
  const std::string pipe = directory() + "/stderr";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Ended ended =
      run_program("/bin/sh", {"-c", "exec 2<>\"$0\"; exec \"$@\"", pipe, programs + "/e2e_driver",
                              "reads_after_output", "--mobula-num-cpus=1"});
  EXPECT_EQ(ended.code, 0) << ended.out;
}

// Without stderr (`2>&-`), a socket must not get its number.
TEST_F(Errors, StderrClosed_DriverContinues) {
  const Ended ended =
      run_program("/bin/sh", {"-c", "exec 0<&- 2>&-; exec \"$0\" \"$@\"", programs + "/e2e_driver",
                              "reads_after_output", "--mobula-num-cpus=1"});
  EXPECT_EQ(ended.code, 0) << ended.out;
}

TEST_F(Errors, RejectsForceForActorCalls) {
  drive({"force_cancels_actor_call", "--mobula-num-cpus=3"});
}

TEST_F(Errors, ReportsInExecutorInTasksAndActors) {
  drive({"knows_executor", "--mobula-num-cpus=2"});
}

TEST_F(Errors, NamesTaskNodeAndProcess) { drive({"names_task", "--mobula-num-cpus=1"}); }

TEST_F(Errors, ConstructorThrows_CallsGetItsError) {
  drive({"constructor_throws", "--mobula-num-cpus=2"});
}

TEST_F(Errors, ProcessDies_ErrorHasItsLastOutput) {
  drive({"tells_last_output", "--mobula-num-cpus=1"});
}

TEST_F(Errors, TracesCrashesWhenEnabled) { drive({"traces_crashes", "--mobula-num-cpus=1"}); }

TEST_F(Errors, ReportsUnreadFailuresAtTheEnd) {
  const Ended ended = drive({"leaves_errors", "--mobula-num-cpus=1"});
  const auto at = ended.err.find("2 failures were never read");
  ASSERT_NE(at, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("never read", at + 30), std::string::npos) << "it is reported once";
  const std::string report = ended.err.substr(at);
  for (const char* number : {"1", "2"}) {
    EXPECT_NE(report.find(std::string("failure number ") + number), std::string::npos) << report;
  }
  for (const char* number : {"3", "4"}) {
    EXPECT_EQ(report.find(std::string("failure number ") + number), std::string::npos) << report;
  }
}

TEST_F(Errors, HeadDead_InitWarns) {
  start_head({"--num-cpus", "1"});
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  Process driver = start_driver({"init"});
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    return driver.err().find("init has blocked for 3 s: the head at ") != std::string::npos;
  })) << driver.err();
  start_head({"--no-worker"});
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

TEST_F(Errors, LogsOfTask_HaveItsLinesOnly) {
  start_head({"--num-cpus", "1"});
  Process driver = start_driver({"logs_of_tasks"});
  ASSERT_TRUE(driver.prints(";")) << driver.err();
  const std::string out = driver.out();
  std::istringstream ids(out.substr(out.find("ids:") + 4));
  int tasks = 0;
  for (std::string id; ids >> id; ++tasks) {
    id = id.substr(0, 32);
    Ended logs;
    EXPECT_TRUE(eventually(Milliseconds(10'000),
                           [&] {
                             logs = mobula({"logs", id});
                             return logs.out.find("own " + id + " two") != std::string::npos;
                           }))
        << logs.out << logs.err;
    std::size_t lines = 0;
    std::istringstream text(logs.out);
    for (std::string line; std::getline(text, line);) {
      const auto at = line.find("] own ");
      if (at == std::string::npos) continue;
      ++lines;
      EXPECT_EQ(line.substr(at + 6, 32), id) << line;
    }
    EXPECT_EQ(lines, 3u) << logs.out << logs.err;
  }
  EXPECT_EQ(tasks, 4);
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0);
}

TEST_F(Errors, LabelsOutputWithTheTaskThatPrints) {
  const Ended ended = drive({"labels_output", "--mobula-num-cpus=1", "--mobula-num-gpus=1"});
  std::istringstream lines(ended.err);
  int seen = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("line of ");
    if (at == std::string::npos) continue;
    ++seen;
    std::istringstream rest(line.substr(at + 8));
    std::string speaker;
    rest >> speaker;
    const std::string label = line.substr(0, line.find(" pid="));
    EXPECT_NE(label.find(speaker == "Speaker" ? "Speaker" : "speaks_" + speaker), std::string::npos)
        << line;
    EXPECT_EQ(label.find("speaks("), std::string::npos) << line;
  }
  EXPECT_EQ(seen, 30) << ended.err;
}

}  // namespace
}  // namespace mobula::e2e
