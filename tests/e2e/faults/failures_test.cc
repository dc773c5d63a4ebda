// Effects on the cluster when one of its processes is killed.
#include <csignal>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Failures = ClusterTest;

int rounds(const Process& driver) {
  const std::string out = driver.out();
  const auto at = out.rfind("round ");
  return at == std::string::npos ? 0 : std::stoi(out.substr(at + 6));
}

bool goes_on(const Process& driver) {
  const int before = rounds(driver);
  return eventually(Milliseconds(30'000), [&] { return rounds(driver) >= before + 3; });
}

void stop_steady(Process& driver) {
  driver.say("stop");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(Failures, DriverKilled_ReleasesResourcesWithinSecond) {
  start_head();
  Process driver = start_driver({"holds"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_TRUE(eventually(Milliseconds(5'000), [&] { return !nothing_is_held(); }));
  driver.signal(SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
  const auto took = std::chrono::steady_clock::now() - begin;
  std::cout << "released after " << std::chrono::duration_cast<Milliseconds>(took).count()
            << " ms\n";
  EXPECT_LT(took, Milliseconds(1'500));  // includes the time of the queries
}

TEST_F(Failures, DriverKilled_EndsOutstandingStreams) {
  start_head();
  Process driver = start_driver({"outstanding"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  driver.signal(SIGKILL);
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    const auto objects = list("objects");
    return nothing_is_held() && objects && objects->empty();
  })) << list("objects").value_or(Json());
}

TEST_F(Failures, NodeKilled_WorkMovesElsewhere) {
  start_head();
  start_node("b");
  Process driver = start_driver({"moves", node_id("b")});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);
  driver.say("go");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(alive_nodes(), 1u);
}

TEST_F(Failures, AgentDied_DriverKeepsItsValues) {
  start_head({"--no-worker"});
  start_node("a");
  Process driver = start_driver({"keeps_values"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_EQ(::kill(agent_pid("a"), SIGKILL), 0);
  start_node("a");
  driver.say("go");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

// The home of the results and their only copies are on the killed node.
TEST_F(Failures, NodeOfResultsKilled_ReadersContinue) {
  start_head({"--num-cpus", "2"});
  start_node("b");
  start_node("c");
  Process driver = start_driver({"reads_results", node_id("c"), node_id("a"), node_id("b")});
  for (int kill = 0; kill < 3; ++kill) {
    ASSERT_TRUE(goes_on(driver)) << driver.out() << driver.err();
    ASSERT_EQ(::kill(agent_pid("c"), SIGKILL), 0);
    ASSERT_TRUE(goes_on(driver)) << driver.out() << driver.err();
    start_node("c");
  }
  stop_steady(driver);
}

// Without the settings, the driver waits 150 s for its next agent, and the head 120 s for the
// driver.
TEST_F(Failures, ReattachTimeout_EndsDriver) {
  start_head({"--no-worker", "--driver-absence", "1"});
  start_node("a");
  more_environment["MOBULA_REATTACH_S"] = "1";
  Process driver = start_driver({"awaits_error"});
  ASSERT_TRUE(eventually(Milliseconds(20'000), [&] { return !nothing_is_held(); }));
  ASSERT_EQ(::kill(agent_pid("a"), SIGKILL), 0);
  ASSERT_TRUE(driver.prints("error: ")) << driver.err();
  EXPECT_NE(driver.err().find("is lost to this driver: no new agent within 1 s"), std::string::npos)
      << driver.err();
  (void)driver.wait();
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    const auto jobs = list("jobs");
    return jobs && !jobs->empty() && (*jobs)[0].value("state", "") == "FAILED";
  }));
}

TEST_F(Failures, NodeOfProducerKilled_StreamContinues) {
  start_head();
  start_node("b");
  Process driver = start_driver({"streams", node_id("b")});
  ASSERT_TRUE(driver.prints("ready")) << driver.out() << driver.err();
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);
  driver.say("go");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

// Executors, an actor, an agent, and the head are killed while one queue has 10,000 refs, and the
// head starts again. By hand: MOBULA_TEST_REFS=100000.
TEST_F(Failures, ProcessesKilled_QueueReportsEachRefOnce) {
  start_head();
  start_node("b", {"--num-cpus", "1"});
  const std::string killed = node_id("b");
  const char* refs = std::getenv("MOBULA_TEST_REFS");
  Process driver = start_driver({"completes", killed, refs == nullptr ? "10000" : refs});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_TRUE(driver.prints("taken")) << driver.out() << driver.err();
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  const Ended ended = driver.wait(Milliseconds(170'000));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Failures, AgentRestarted_KeepsNodeId) {
  start_head();
  start_node("b");
  const std::string node = node_id("b");
  Process driver = start_driver({"steady"});
  ASSERT_TRUE(driver.prints("round 2;")) << driver.err();
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);
  EXPECT_TRUE(goes_on(driver)) << driver.err();
  ASSERT_TRUE(eventually(Milliseconds(20'000), [&] { return alive_nodes() == 1; }));
  start_node("b");
  EXPECT_EQ(node_id("b"), node);
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return alive_nodes() == 2; }));
  EXPECT_TRUE(goes_on(driver)) << driver.err();
  stop_steady(driver);
}

TEST_F(Failures, HeadRestarted_ContinuesDrain) {
  start_head();
  start_node("b");
  const auto state_of_b = [&] {
    const auto nodes = list("nodes");
    for (const Json& each : nodes.value_or(Json::array())) {
      if (each["node_id"] == node_id("b")) return each.value("state", "");
    }
    return std::string();
  };
  ASSERT_EQ(mobula({"drain", node_id("b")}).code, 0);
  EXPECT_EQ(state_of_b(), "DRAINING");
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] { return state_of_b() == "DRAINING"; }))
      << state_of_b();
  stop("b");
  start_node("b");
  EXPECT_EQ(state_of_b(), "ALIVE") << "the agent that was drained has ended";
}

TEST_F(Failures, HeadRestarted_RemembersUndrain) {
  start_head();
  start_node("b");
  const auto state_of_b = [&] {
    const Ended ended = mobula({"get", "node", node_id("b"), "-o", "json"});
    const Json node = Json::parse(ended.out, nullptr, false);
    return node.is_object() ? node.value("state", "") : ended.err;
  };
  ASSERT_EQ(mobula({"drain", node_id("b")}).code, 0);
  EXPECT_EQ(state_of_b(), "DRAINING");
  const Ended back = mobula({"undrain", node_id("b")});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_NE(back.out.find("is schedulable again"), std::string::npos) << back.out;
  EXPECT_EQ(state_of_b(), "ALIVE");
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] { return state_of_b() == "ALIVE"; }))
      << state_of_b();
  EXPECT_NE(mobula({"undrain", node_id("b")}).out.find("was not draining"), std::string::npos);
}

// Nodes connect to the head at its last known address.
TEST_F(Failures, HeadRestartedWithoutFlags_ReusesAddress) {
  start_head({"--num-cpus", "2", "--bind", "127.0.0.2", "--http", "127.0.0.1:0"});
  const std::string before = address();
  ASSERT_TRUE(before.starts_with("127.0.0.2:")) << before;
  start_node("b");
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  ASSERT_TRUE(eventually(Milliseconds(10'000), [&] { return mobula({"status"}).code == 3; }));
  EXPECT_NE(mobula({"status"}).err.find("restart it with: mobula start --head"), std::string::npos);

  const Ended elsewhere = mobula({"start", "--head", "--no-worker", "--bind", "127.0.0.1"});
  EXPECT_EQ(elsewhere.code, 1) << elsewhere.out;
  EXPECT_NE(elsewhere.err.find("2 nodes of this cluster look for the head at " + before),
            std::string::npos)
      << elsewhere.err;
  EXPECT_NE(elsewhere.err.find("--as-given"), std::string::npos) << elsewhere.err;

  const Ended again = mobula({"start", "--head", "--no-worker"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(
      again.err.find("reused flags of the previous start: --bind 127.0.0.2 --http 127.0.0.1:0 "),
      std::string::npos)
      << again.err;
  EXPECT_NE(again.out.find("Head: " + before), std::string::npos) << again.out;
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] { return alive_nodes() == 2; }));

  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  const Ended moved =
      mobula({"start", "--head", "--no-worker", "--bind", "127.0.0.1", "--as-given"});
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_NE(moved.err.find("they count as dead in 30 s"), std::string::npos) << moved.err;
  stop("b");
}

TEST_F(Failures, HeadUnreachable_JoinReportsOnceAndCanStop) {
  start_head();
  const auto before = processes();
  Process joins({programs + "/mobula", "start", "--address", "127.0.0.1:1", "--key",
                 state_of("a") + "/default/default.key"},
                environment_of("b"), directory() + "/log/joins");
  const std::string said = "no process listens at 127.0.0.1:1, the address of the head";
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    return joins.err().find(said) != std::string::npos;
  })) << joins.err();
  EXPECT_NE(joins.err().find("retrying, Ctrl-C stops"), std::string::npos) << joins.err();
  joins.signal(SIGINT);
  const Ended ended = joins.wait(Milliseconds(30'000));
  EXPECT_EQ(ended.code, 130);
  EXPECT_NE(ended.err.find("no agent runs"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find(said), ended.err.rfind(said)) << "once";
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return processes() == before; }));
}

TEST_F(Failures, HeadKilled_WorkContinues) {
  start_head();
  start_node("b");
  Process driver = start_driver({"steady"});
  ASSERT_TRUE(driver.prints("round 2;")) << driver.err();
  const std::string before = address();
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  EXPECT_EQ(address(), before);
  EXPECT_TRUE(eventually(Milliseconds(15'000), [&] { return alive_nodes() == 2; }));
  EXPECT_TRUE(goes_on(driver)) << driver.err();
  EXPECT_NE(drive({"use_detached", "kept"}).out.find("value"), std::string::npos);
  stop_steady(driver);
}

TEST_F(Failures, AgentAndHeadKilled_JobContinues) {
  start_head({"--no-worker"});
  start_node("a");
  Process driver = start_driver({"steady"});
  ASSERT_TRUE(driver.prints("round 2;")) << driver.err();
  ASSERT_EQ(::kill(agent_pid("a"), SIGKILL), 0);
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  start_node("a");
  EXPECT_TRUE(goes_on(driver)) << driver.err();
  stop_steady(driver);
}

}  // namespace
}  // namespace mobula::e2e
