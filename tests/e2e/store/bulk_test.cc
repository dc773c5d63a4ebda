// Large values between nodes whose holders are killed or stopped while they are read.
#include <chrono>
#include <csignal>

#include "e2e/cluster.h"
#include "matrix/cells.h"

namespace mobula::e2e {
namespace {

class Bulk : public ClusterTest {
 protected:
  void start_nodes(Words head_flags = {}) {
    Words flags{"--num-cpus", "2"};
    flags.insert(flags.end(), head_flags.begin(), head_flags.end());
    start_head(flags);
    for (const char* name : {"b", "c", "d"})
      start_node(name, {"--num-cpus", "1", "--bulk-connections", "2"});
  }
  void read_while(int signal) {
    start_nodes();
    const pid_t holder = agent_pid("b");
    Process driver =
        start_driver({"read_while_a_holder_goes", node_id("b"), node_id("c"), node_id("d")});
    ASSERT_TRUE(driver.prints("ready", Milliseconds(90'000))) << driver.err();
    driver.say("go");
    // Waits until part of the value has arrived. The transfer must complete, even if it is complete
    // already.
    const pid_t reader = agent_pid("d");
    const std::size_t before = resident_bytes(reader);
    EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
      return resident_bytes(reader) > before + (std::size_t{24} << 20);
    }));
    ::kill(holder, signal);
    const Ended ended = driver.wait(Milliseconds(90'000));
    if (signal == SIGSTOP) ::kill(holder, SIGCONT);
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
};

TEST_F(Bulk, HolderKilled_ReaderFetchesRestFromAnother) {
  matrix::belongs_to(matrix::Part::killed_holder, matrix::Column::staged, matrix::Proof::real);
  read_while(SIGKILL);
}

TEST_F(Bulk, HolderStopped_ReaderFetchesRestFromAnother) {
  matrix::belongs_to(matrix::Part::stopped, matrix::Column::staged, matrix::Proof::real);
  read_while(SIGSTOP);
}

// The holder is stopped halfway through the transfer.
TEST_F(Bulk, ListsProgressOfObjectTransfer) {
  start_head({"--num-cpus", "1"});
  start_node("b", {"--num-cpus", "1", "--bulk-connections", "1"});
  const pid_t holder = agent_pid("b"), reader = agent_pid("a");
  Process driver = start_driver({"bring", node_id("b")});
  const auto listed = [&](const Words& filters) {
    Words words{"list", "transfers", "-o", "json"};
    for (const auto& each : filters) words.insert(words.end(), {"--filter", each});
    const Ended ended = mobula(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return Json::parse(ended.out, nullptr, false)["items"];
  };
  Json seen;
  int tries = 0;
  while (seen.empty() && ++tries <= 8) {  // the value may be complete before the stop
    driver.say("make");
    ASSERT_TRUE(driver.prints("made", Milliseconds(90'000))) << driver.err();
    const std::size_t before = resident_bytes(reader);
    driver.say("bring");
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (resident_bytes(reader) < before + (std::size_t{24} << 20) &&
           std::chrono::steady_clock::now() < until) {
    }
    ASSERT_EQ(::kill(holder, SIGSTOP), 0);
    seen = listed({"state=running"});
    if (!seen.empty()) {
      const Json item = seen[0];
      EXPECT_EQ(item["path"], "store");
      EXPECT_EQ(item["node_id"], node_id("a"));
      EXPECT_EQ(item["peer_node_id"], node_id("b"));
      EXPECT_EQ(item["source_node_ids"], Json({node_id("b")}));
      EXPECT_GT(item["bytes"], 0) << item;
      EXPECT_LT(item["bytes"], item["size_bytes"]) << item;
      EXPECT_GE(item["size_bytes"], 192 << 20);
      EXPECT_GT(item["wire_seconds"], 0) << item;
      EXPECT_EQ(listed({"object_id=" + item["object_id"].get<std::string>(),
                        "node_id=" + node_id("a")})[0]["state"],
                "RUNNING");
      EXPECT_EQ(listed({"state=FINISHED"}).size() + 1, static_cast<std::size_t>(tries));
      const std::string table = mobula({"list", "transfers"}).out;
      EXPECT_NE(table.find("RUNNING"), std::string::npos) << table;
    }
    ASSERT_EQ(::kill(holder, SIGCONT), 0);
    ASSERT_TRUE(driver.prints("brought", Milliseconds(90'000))) << driver.err();
  }
  ASSERT_EQ(seen.size(), 1u) << "in " << tries << " tries";
  EXPECT_TRUE(listed({"state=RUNNING"}).empty());
  const Json then = listed({"object_id=" + seen[0]["object_id"].get<std::string>()});
  ASSERT_EQ(then.size(), 1u) << then;
  EXPECT_EQ(then[0]["state"], "FINISHED");
  EXPECT_EQ(then[0]["bytes"], seen[0]["size_bytes"]);
  driver.say("end");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
}

TEST_F(Bulk, BroadcastsValueToAllNodes) {
  start_nodes();
  EXPECT_EQ(
      drive({"broadcast", node_id("b"), node_id("c"), node_id("d")}, Milliseconds(90'000)).code, 0);
}

TEST_F(Bulk, TrustedFabric_TransfersUnencrypted) {
  start_nodes({"--trusted-fabric"});
  EXPECT_EQ(
      drive({"broadcast", node_id("b"), node_id("c"), node_id("d")}, Milliseconds(90'000)).code, 0);
}

}  // namespace
}  // namespace mobula::e2e
