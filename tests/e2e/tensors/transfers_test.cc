// The cluster's report on tensor transfers between its processes: path, bytes, and encryption.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Transfers : public ClusterTest {
 protected:
  Json listed(const Words& filters = {}) {
    Words words{"list", "transfers", "-o", "json"};
    for (const auto& each : filters) words.insert(words.end(), {"--filter", each});
    const Ended ended = mobula(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return Json::parse(ended.out, nullptr, false);
  }
  Json status() { return Json::parse(mobula({"status", "-o", "json"}).out, nullptr, false); }
  // Returns the counters of a path in `status`; null if no transfer used it.
  static Json of_path(const Json& counts, const std::string& path) {
    for (const auto& each : counts) {
      if (each.value("path", "") == path) return each;
    }
    return {};
  }
  // Waits for the counters, which processes report periodically.
  bool counts_come_to(const std::string& path, std::uint64_t transfers) {
    return eventually(Milliseconds(30'000), [&] {
      const Json counts = of_path(status()["transfers"], path);
      return counts.is_object() && counts["transfers"] == transfers;
    });
  }
};

TEST_F(Transfers, ListsAndCountsTransfersByPath) {
  start_head({"--num-cpus", "3", "--resources", R"({"here": 1})"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 1})"});
  Process driver = start_driver({"report_transfers", "there"});
  ASSERT_TRUE(driver.prints("moved tcp encrypted", Milliseconds(60'000))) << driver.err();

  const Json all = listed();
  EXPECT_EQ(all["kind"], "TransferList");
  EXPECT_TRUE(all["warnings"].empty()) << all["warnings"];
  const Json by_tcp = listed({"path=tcp", "state=FINISHED"})["items"];
  ASSERT_EQ(by_tcp.size(), 3u) << all;
  for (const auto& each : by_tcp) {
    EXPECT_EQ(each["bytes"], 1 << 20);
    EXPECT_EQ(each["encrypted"], true);
    EXPECT_EQ(each["in_place"], false);
    EXPECT_EQ(each["node_id"], node_id("b"));
    EXPECT_EQ(each["peer_node_id"], node_id("a"));
  }
  EXPECT_EQ(listed({"path=shm"})["items"].size(), 2u) << all;
  const Json failed = listed({"state=FAILED"})["items"];
  ASSERT_EQ(failed.size(), 1u) << all;
  EXPECT_NE(failed[0]["reason"].dump().find("lost"), std::string::npos) << failed;
  EXPECT_EQ(listed({"job_id=" + std::string(32, '0')})["items"].size(), 0u);
  EXPECT_EQ(mobula({"list", "transfers", "--filter", "path=pigeon"}).code, 2);
  const std::string table = mobula({"list", "transfers"}).out;
  EXPECT_NE(table.find("ENCRYPTED"), std::string::npos) << table;

  EXPECT_TRUE(counts_come_to("tcp", 3)) << status()["transfers"];
  const Json counts = of_path(status()["transfers"], "tcp");
  EXPECT_EQ(counts["bytes"], 3 << 20);
  EXPECT_EQ(counts["encrypted"], 3);
  EXPECT_EQ(counts["fallbacks"], 0);
  EXPECT_TRUE(counts_come_to("shm", 2)) << status()["transfers"];
  const auto nodes = list("nodes");
  ASSERT_TRUE(nodes);
  for (const auto& node : *nodes) {
    EXPECT_EQ(of_path(node["transfers"], "tcp").is_object(), node["node_id"] == node_id("b"))
        << node["transfers"];
  }
  EXPECT_NE(mobula({"status"}).out.find("TRANSFERS"), std::string::npos);
  EXPECT_NE(mobula({"summary"}).out.find("transfers"), std::string::npos);

  // The counters of an exited process are kept. Its log is lost.
  driver.say("go on");
  ASSERT_TRUE(driver.prints("left", Milliseconds(60'000))) << driver.err();
  EXPECT_TRUE(
      eventually(Milliseconds(30'000), [&] { return listed({"path=tcp"})["items"].empty(); }));
  EXPECT_EQ(of_path(status()["transfers"], "tcp")["transfers"], 3);
  driver.say("go on");
  EXPECT_EQ(driver.wait(Milliseconds(30'000)).code, 0) << driver.err();
}

TEST_F(Transfers, ProcessStopped_ItsTransfersShownAsUnknown) {
  start_head({"--num-cpus", "3"});
  Process driver = start_driver({"report_transfers"});
  ASSERT_TRUE(driver.prints("moved", Milliseconds(60'000))) << driver.err();
  ASSERT_EQ(::kill(driver.pid(), SIGSTOP), 0);
  const Json all = listed();
  EXPECT_EQ(::kill(driver.pid(), SIGCONT), 0);
  EXPECT_NE(all["warnings"].dump().find("its list of transfers is not known"), std::string::npos)
      << all["warnings"];
  EXPECT_FALSE(all["items"].empty()) << "the actor has answered";
  driver.say("go on");
  driver.say("go on");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
}

TEST_F(Transfers, ListsTensorTransferInProgress) {
  start_head({"--num-cpus", "3"});
  Process driver = start_driver({"read_from_a_stopped_process"});
  ASSERT_TRUE(driver.prints("holder", Milliseconds(60'000))) << driver.err();
  const std::string said = driver.out();
  const pid_t holder = std::stoi(said.substr(said.find("holder ") + 7));
  ASSERT_GT(holder, 0) << said;
  ASSERT_EQ(::kill(holder, SIGSTOP), 0);
  driver.say("go on");
  ASSERT_TRUE(driver.prints("asked", Milliseconds(60'000))) << driver.err();
  Json items;
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    items = listed({"state=PENDING"})["items"];
    return !items.empty();
  }));
  EXPECT_EQ(::kill(holder, SIGCONT), 0);
  ASSERT_EQ(items.size(), 1u) << items;
  EXPECT_EQ(items[0]["bytes"], 0);
  EXPECT_EQ(items[0]["size_bytes"], 1 << 20);
  EXPECT_NE(items[0]["peer"], "") << "a process has it";
  EXPECT_NE(items[0]["reason"], "");
  ASSERT_TRUE(driver.prints("read", Milliseconds(60'000))) << driver.err();
  EXPECT_TRUE(listed({"state=PENDING"})["items"].empty());
  const Json then = listed({"object_id=" + items[0]["object_id"].get<std::string>()})["items"];
  ASSERT_EQ(then.size(), 1u) << then;
  EXPECT_EQ(then[0]["state"], "FINISHED");
  EXPECT_EQ(then[0]["bytes"], 1 << 20);
  driver.say("go on");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
}

TEST_F(Transfers, EncryptsUnlessBothNodesShareFabric) {
  start_head({"--num-cpus", "3", "--resources", R"({"here": 1})", "--trusted-fabric", "rack 1"});
  start_node("b",
             {"--num-cpus", "2", "--resources", R"({"same": 1})", "--trusted-fabric", "rack 1"});
  start_node("c",
             {"--num-cpus", "2", "--resources", R"({"other": 1})", "--trusted-fabric", "rack 2"});
  start_node("d", {"--num-cpus", "2", "--resources", R"({"silent": 1})"});
  for (const auto& [resource, way] :
       std::map<std::string, std::string>{{"same", "moved tcp plain"},
                                          {"other", "moved tcp encrypted"},
                                          {"silent", "moved tcp encrypted"}}) {
    Process driver = start_driver({"report_transfers", resource});
    EXPECT_TRUE(driver.prints(way, Milliseconds(60'000))) << resource << ": " << driver.err();
    const Json items = listed({"path=tcp"})["items"];
    for (const auto& each : items) EXPECT_EQ(each["encrypted"], resource != "same") << each;
    driver.say("go on");
    driver.say("go on");
    EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
  }
  const Json fabrics = status()["fabrics"];
  ASSERT_EQ(fabrics.size(), 3u) << fabrics;
  EXPECT_EQ(fabrics[0]["name"], "");
  EXPECT_EQ(fabrics[0]["encrypted"], true);
  EXPECT_EQ(fabrics[1]["name"], "rack 1");
  EXPECT_EQ(fabrics[1]["nodes"], 2);
  EXPECT_NE(mobula({"status"}).out.find("trusted fabric 'rack 1' with 2 nodes"), std::string::npos)
      << mobula({"status"}).out;
}

TEST_F(Transfers, ListsAndCountsCollectiveTransfers) {
  start_head({"--num-cpus", "3"});
  for (const auto& [transport, path] :
       std::map<std::string, std::string>{{"automatic", "shm"}, {"tcp", "tcp"}}) {
    Process driver = start_driver({"collective_transfers", transport});
    ASSERT_TRUE(driver.prints("logged", Milliseconds(60'000))) << driver.err();
    const Json items = listed({"path=" + path})["items"];
    ASSERT_EQ(items.size(), 3u) << items;
    for (const auto& each : items) {
      EXPECT_EQ(each["group"], "logged");
      EXPECT_EQ(each["state"], "FINISHED");
      EXPECT_EQ(each["object_id"], "");
      EXPECT_EQ(each["encrypted"], path == "tcp");
      EXPECT_GT(each["bytes"], 100'000);
      EXPECT_GT(each["sent_bytes"], 100'000);
      EXPECT_NE(each["operation"].dump().find("all_reduce(average), float32 [100000] with ranks"),
                std::string::npos)
          << each;
    }
    EXPECT_NE(mobula({"list", "transfers"}).out.find("GROUP"), std::string::npos);
    EXPECT_TRUE(counts_come_to(path, 3)) << status()["transfers"];
    driver.say("go on");
    EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
  }
}

TEST_F(Transfers, RejectsNodeOutsideItsFabric) {
  const Ended ended = mobula({"start", "--head", "--trusted-fabric", "10.9.8.0/24"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_NE(ended.err.find("which is not in that network"), std::string::npos) << ended.err;
  start_head({"--num-cpus", "1", "--trusted-fabric", "127.0.0.77/8"});
  const auto nodes = list("nodes");
  ASSERT_TRUE(nodes && nodes->size() == 1);
  EXPECT_EQ((*nodes)[0]["fabric"], "127.0.0.0/8") << "by which nodes compare";
}

TEST_F(Transfers, LostElements_AreRecomputedByTheirTasks) {
  start_head({"--num-cpus", "4", "--resources", R"({"one": 1})"});
  const Ended ended = drive({"lost_elements", directory()}, Milliseconds(120'000));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(Transfers, ElementsLost_ActorCallsStayInOrder) {
  start_head({"--num-cpus", "4", "--resources", R"({"one": 1})"});
  const Ended ended = drive({"calls_behind_lost_elements", directory()}, Milliseconds(120'000));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

}  // namespace
}  // namespace mobula::e2e
