// Visibility between jobs on shared nodes, destinations of output, and drained nodes.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Nodes = ClusterTest;

std::size_t lines_with(const std::string& text, const std::string& part, const std::string& more) {
  std::istringstream lines(text);
  std::string line;
  std::size_t count = 0;
  while (std::getline(lines, line)) {
    const bool both = line.find(part) != std::string::npos && line.find(more) != std::string::npos;
    count += both ? 1 : 0;
  }
  return count;
}

TEST_F(Nodes, KeepsArgumentsOfJobsSeparate) {
  start_head();
  Process first = start_driver({"sees_own_words", "the-first"});
  Process second = start_driver({"sees_own_words", "the-second"});
  ASSERT_TRUE(first.prints("ready")) << first.err();
  ASSERT_TRUE(second.prints("ready")) << second.err();
  first.say("go");
  second.say("go");
  const Ended one = first.wait();
  const Ended two = second.wait();
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(two.code, 0) << two.err;
}

TEST_F(Nodes, DeliversOutputPrintedJustBeforeDriverExit) {
  start_head();
  const Ended ended = drive({"prints_and_ends", "near"});
  EXPECT_EQ(lines_with(ended.err, "near ", "pid="), 100u) << ended.err;
  EXPECT_EQ(lines_with(ended.err, "near ", "node="), 0u) << "on the same node it is not said";
}

TEST_F(Nodes, LabelsRemoteOutputWithNode) {
  start_head();
  start_node("b");
  const Ended ended = drive({"prints_and_ends", "far", node_id("b")});
  EXPECT_EQ(lines_with(ended.err, "far ", "node=" + node_id("b").substr(0, 8)), 100u) << ended.err;
}

// As many tasks as CPUs: a node without a task shows that an executor ran two.
TEST_F(Nodes, SpreadsBurstsOfShortTasks) {
  start_head({"--num-cpus", "2"});
  start_node("b");
  start_node("c");
  const Ended ended = drive({"spread_bursts", "3", state_of("pipe")});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Nodes, JobEnded_DetachedActorSubmitsTasks) {
  start_head();
  drive({"make_detached_parent"});
  drive({"use_detached_parent"});
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(Nodes, Drain_MovesRestartableAndEndsRestAtDeadline) {
  start_head();
  start_node("b");
  Process moves = start_driver({"moves", node_id("b")});
  Process stays = start_driver({"stays", node_id("b")});
  ASSERT_TRUE(moves.prints("ready")) << moves.err();
  ASSERT_TRUE(stays.prints("ready")) << stays.err();
  const Ended drained = mobula({"drain", node_id("b"), "--deadline", "3"});
  EXPECT_EQ(drained.code, 0) << drained.out << drained.err;
  EXPECT_NE(drained.out.find("is draining: no lease is left.\n"), std::string::npos) << drained.out;
  EXPECT_NE(drained.out.find("1 actor was ended by the drain: "), std::string::npos) << drained.out;
  EXPECT_NE(drained.out.find("1 actor was started elsewhere: "), std::string::npos) << drained.out;
  EXPECT_NE(drained.err.find("may not be restarted and stays on the node"), std::string::npos)
      << drained.err;
  EXPECT_NE(drained.err.find(" s until the deadline"), std::string::npos) << drained.err;
  moves.say("go");
  stays.say("go");
  const Ended moved = moves.wait();
  EXPECT_EQ(moved.code, 0) << moved.err;
  const Ended stayed = stays.wait();
  EXPECT_EQ(stayed.code, 0) << stayed.err;
}

// The agents are killed, so that every value still available was copied earlier.
TEST_F(Nodes, Drain_CopiesResultsHeldElsewhere) {
  start_head();
  start_node("b");
  start_node("c");
  Process driver = start_driver({"results_of", node_id("b"), node_id("c")});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  const Ended drained = mobula({"drain", node_id("b"), "--deadline", "60"});
  EXPECT_EQ(drained.code, 0) << drained.out << drained.err;
  EXPECT_EQ(drained.out.find("not copied yet"), std::string::npos) << drained.out;
  for (const char* name : {"b", "c"}) ASSERT_EQ(::kill(agent_pid(name), SIGKILL), 0);
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] { return alive_nodes() == 1; }));
  driver.say("go");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
  EXPECT_NE(driver.out().find("there 12 of " + node_id("b")), std::string::npos) << driver.out();
  EXPECT_NE(driver.out().find("there 0 of " + node_id("c")), std::string::npos) << driver.out();
}

// Capacity reserved for a large request stays open to tasks that must end before it: here the child
// of a running parent.
TEST_F(Nodes, LargeRequest_DoesNotBlockChildTask) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  EXPECT_EQ(drive({"family_beside_a_large_request"}).code, 0);
}

TEST_F(Nodes, QuotaReserved_DoesNotBlockChildTask) {
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  EXPECT_EQ(drive({"family_beside_a_large_request", "--mobula-job-quota", R"({"GPU": 1})"}).code,
            0);
}

TEST_F(Nodes, Sigterm_DrainsAgent) {
  start_head();
  start_node("b");
  const pid_t agent = agent_pid("b");
  Process steady = start_driver({"steady"});
  ASSERT_TRUE(steady.prints("round 2;")) << steady.err();
  ASSERT_EQ(::kill(agent, SIGTERM), 0);
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] { return !runs(agent); }));
  EXPECT_EQ(alive_nodes(), 1u);
  steady.say("stop");
  const Ended ended = steady.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
}

// The clock of node b starts days ahead and jumps. Calls in both directions work, and `doctor`
// names both clocks.
TEST_F(Nodes, WrongClock_CallsBetweenNodesWork) {
  start_head();
  const std::string clock = state_of("clock");
  const auto set_clock = [&](const std::string& hours) {
    std::ofstream(clock + ".new") << std::stol(hours) * 3600 << std::endl;
    std::filesystem::rename(clock + ".new", clock);
  };
  set_clock("72");
  more_environment = {
      {"LD_PRELOAD", std::string(MOBULA_BINARY_DIR) + "/tests/cli/libskewed_clock.so"},
      {"SKEWED_CLOCK_FILE", clock}};
  start_node("b");
  more_environment.clear();
  Process driver = start_driver({"calls_between", node_id("a"), node_id("b"), "4"});
  int round = 0;
  for (const char* hours : {"5", "-72", "200", "200"}) {
    ASSERT_TRUE(driver.prints("round " + std::to_string(round++) + ";")) << driver.err();
    if (round == 1) {
      const Ended ahead = mobula({"doctor", "--output", "json"});
      EXPECT_NE(ahead.out.find("its clock says"), std::string::npos) << ahead.out;
      EXPECT_NE(ahead.out.find("s ahead of the head"), std::string::npos) << ahead.out;
    }
    set_clock(hours);
    driver.say("next");
  }
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  const Ended wrong = mobula({"doctor", "--output", "json"});
  EXPECT_NE(wrong.out.find("node clocks"), std::string::npos) << wrong.out;
  EXPECT_EQ(alive_nodes(), 2u);
}

// The head's clock jumps two days back. Node c joins with a ticket that ended yesterday by the
// clock of node b, whose agent is stopped and receives no new ticket.
TEST_F(Nodes, TicketRejected_CallFailsWithBothClocks) {
  const std::string clock = state_of("clock");
  std::ofstream(clock) << 0 << std::endl;
  more_environment = {
      {"LD_PRELOAD", std::string(MOBULA_BINARY_DIR) + "/tests/cli/libskewed_clock.so"},
      {"SKEWED_CLOCK_FILE", clock}};
  start_head();
  more_environment.clear();
  start_node("b");
  drive({"make_detached", "far", node_id("b")});
  const pid_t agent = agent_pid("b");
  ASSERT_EQ(::kill(agent, SIGSTOP), 0);
  std::ofstream(clock + ".new") << -48 * 3600 << std::endl;
  std::filesystem::rename(clock + ".new", clock);
  start_node("c");
  auto environment = environment_of("c");
  environment["MOBULA_ADDRESS"] = address();
  environment["MOBULA_UNREACHABLE_S"] = "1";
  const Words use{programs + "/e2e_driver", "use_detached", "far"};
  const Ended rejected = Process(use, environment, directory() + "/log/rejected").wait();
  ::kill(agent, SIGCONT);
  EXPECT_NE(rejected.code, 0);
  for (const char* part : {"rejected connections from node", "ticket refused: it expired at",
                           "this machine's clock says", "compare the clocks with 'mobula doctor'"})
    EXPECT_NE(rejected.err.find(part), std::string::npos) << part << ": " << rejected.err;
  // The agent of node b receives its new ticket.
  const auto served = [&] {
    const Ended used = Process(use, environment, directory() + "/log/served").wait();
    return used.out.find("value 2") != std::string::npos;
  };
  EXPECT_TRUE(eventually(Milliseconds(20'000), served));
  drive({"use_detached", "far", "end"});
}

TEST_F(Nodes, ListsStoredObjects) {
  start_head();
  Process driver = start_driver({"large_object"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  const auto objects = list("objects");
  ASSERT_TRUE(objects);
  ASSERT_EQ(objects->size(), 1u);
  EXPECT_GE((*objects)[0].value("size_bytes", 0), 8 << 20);
  EXPECT_EQ((*objects)[0].value("node_id", ""), node_id("a"));
  EXPECT_EQ((*objects)[0].value("state", ""), "SEALED");
  driver.say("done");
  EXPECT_EQ(driver.wait().code, 0);
}

}  // namespace
}  // namespace mobula::e2e
