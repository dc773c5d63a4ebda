// Planned exits of executors: submitted work that no task awaited, and refs and actors that outlive
// their maker.
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using PlannedEnds = ClusterTest;

TEST_F(PlannedEnds, DeliversUnawaitedCalls) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  std::cout << drive({"unawaited", "cpu", "40"}).out;
  std::cout << drive({"unawaited", "gpu", "8"}).out;
  std::cout << drive({"unawaited", "once", "8"}).out;
  std::cout << drive({"unawaited", "tasks", "20"}).out;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(PlannedEnds, UnawaitedTasks_GetGpuOfTheirCaller) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  std::cout << drive({"unawaited", "gpu_tasks", "4"}).out;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(PlannedEnds, DetachedActor_ReceivesFirstCall) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  drive({"detached_first_call"});
}

TEST_F(PlannedEnds, ActorDropped_ItsCallsArrive) {
  start_head();
  drive({"dropped_forwarder"});
}

TEST_F(PlannedEnds, CallerEnded_RefOfPendingCallSurvives) {
  start_head();
  drive({"returned_call"});
}

TEST_F(PlannedEnds, TaskEnded_ItsActorSurvives) {
  start_head();
  drive({"factory"});
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(PlannedEnds, DrainDeadline_LimitsWaitAndReportsIt) {
  start_head();
  start_node("b");
  const std::string pipe = directory() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"stuck_call", node_id("a"), node_id("b"), pipe});
  ASSERT_TRUE(driver.prints("submitted")) << driver.err();
  // The task has returned, and its executor awaits the call.
  EXPECT_EQ(mobula({"drain", node_id("b"), "--deadline", "1"}).code, 0);
  const Ended events = mobula({"events", "--kind", "EXECUTOR_CALLS_CUT", "-o", "json"});
  EXPECT_NE(events.out.find("not finished: 1"), std::string::npos) << events.out << events.err;
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

TEST_F(PlannedEnds, ActorLeaving_NameIsFree) {
  start_head();
  std::cout << drive({"shared_by_name", "40"}).out;
}

// The job has ended as planned before the driver exits.
TEST_F(PlannedEnds, DriverExit_IsListed) {
  start_head();
  const auto expect_reason = [&](const Words& scenario, const std::string& reason) {
    start_driver(scenario).wait();
    std::string jobs;
    EXPECT_TRUE(eventually(Milliseconds(10'000), [&] {
      jobs = mobula({"list", "jobs", "-o", "json"}).out;
      return jobs.find("its driver has finished and then " + reason) != std::string::npos;
    })) << jobs;
  };
  expect_reason({"exits", "0"}, "exited with code 0");
  expect_reason({"exits", "7"}, "exited with code 7");
  expect_reason({"exits", "0", "9"}, "was killed by signal 9");
}

TEST_F(PlannedEnds, ExitActor_NameIsFreeWithResult) {
  start_head();
  std::cout << drive({"names_after_exit", "40"}).out;
}

TEST_F(PlannedEnds, ReportsFailedExitHandlers) {
  start_head();
  drive({"exit_handlers", directory() + "/calls"});
  std::ifstream in(directory() + "/calls");
  const std::string calls{std::istreambuf_iterator<char>(in), {}};
  EXPECT_NE(calls.find("calling Mobula in an exit handler"), std::string::npos) << calls;
  EXPECT_NE(calls.find("refused"), std::string::npos) << calls;
  EXPECT_EQ(calls.find("no error"), std::string::npos) << calls;
  std::string events;
  const auto reported = [&](const std::string& text) {
    events = mobula({"events", "--kind", "EXECUTOR_EXIT_FAILED", "-o", "json"}).out;
    return events.find(text) != std::string::npos;
  };
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] {
    return reported("they did not return within 5000 ms");
  })) << events;
  EXPECT_TRUE(reported("flush of the cache failed")) << events;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(PlannedEnds, CallAfterKill_Fails) {
  start_head();
  drive({"killed", "20"});
}

TEST_F(PlannedEnds, ActorsDropped_ResourcesReturnAtOnce) {
  start_head();
  std::cout << drive({"released", "4"}).out;
}

TEST_F(PlannedEnds, DestroysActorsAndRunsExitHandlers) {
  start_head();
  drive({"destructors", directory()});
  const auto text_of = [&](const std::string& name) {
    std::ifstream in(directory() + "/" + name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  // The job has ended.
  const std::string whole = "1\ndestroyed\natexit\nstatic\n";
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return text_of("stays") == whole; }))
      << text_of("stays");
  EXPECT_EQ(text_of("killed"), "");
}

TEST_F(PlannedEnds, NodeDrained_ActorIsDestroyed) {
  start_head();
  start_node("b");
  const std::string file = directory() + "/lines";
  Process driver = start_driver({"writes_on", node_id("b"), file});
  ASSERT_TRUE(driver.prints("written")) << driver.err();
  EXPECT_EQ(mobula({"drain", node_id("b"), "--deadline", "1"}).code, 0);
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    return read_text(file) == "1\ndestroyed\natexit\nstatic\n";
  })) << read_text(file);
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

TEST_F(PlannedEnds, RejectsForkedChildren) {
  start_head();
  drive({"forks"});
}

TEST_F(PlannedEnds, DriverKilled_JobEndsDespiteChild) {
  start_head();
  Process driver = start_driver({"forks", "and stay"});
  ASSERT_TRUE(driver.prints("child ")) << driver.err();
  ASSERT_TRUE(driver.prints(";")) << driver.err();
  const auto child =
      static_cast<pid_t>(std::stol(driver.out().substr(driver.out().find("child ") + 6)));
  driver.signal(SIGKILL);
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
  EXPECT_TRUE(runs(child));
  ::kill(child, SIGKILL);
}

using BrokenRings = ClusterTest;

TEST_F(BrokenRings, CallsContinueBySocket) {
  start_head();
  drive({"broken_rings"});
}

}  // namespace
}  // namespace mobula::e2e
