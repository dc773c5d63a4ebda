// Tests queries for transfers of tensors, and the counts over the life of the head.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class TransferQuestions : public testing::Test {
 protected:
  TransferQuestions() {
    cluster.driver_starts_job(agent, 1);
    cluster.driver_starts_job(agent, 2);
  }

  ToolReply send_query(const std::string& verb, const std::string& kind,
                       const std::string& argument = "") {
    ToolRequest request;
    request.request = 9;
    request.verb = verb;
    request.kind = kind;
    request.argument = argument;
    cluster.replies.clear();
    last_queries.clear();
    cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
    return cluster.replies.empty() ? ToolReply{} : cluster.replies[0];
  }
  TransfersRequest query(int job) {
    const auto questions = cluster.received<TransfersRequest>(agent, SmallCluster::driver(job));
    if (!questions.empty()) last_queries[job] = questions.back();
    return last_queries[job];
  }
  void answers(int job, std::vector<Duration> ages, std::uint64_t left_out = 0) {
    TransfersReply reply;
    reply.request = query(job).request;
    reply.left_out = left_out;
    reply.knows_under_way = true;
    for (const Duration ago : ages) {
      TransferFact& fact = reply.transfers.emplace_back();
      fact.object = ObjectId::of(7);
      fact.holder = SmallCluster::driver(1);
      fact.path = DirectPath::tcp;
      fact.size_bytes = 1000;
      fact.encrypted = true;
      fact.ago = ago;
    }
    cluster.from_driver(agent, job, reply);
  }
  void counts(int job, std::uint64_t transfers) {
    cluster.from_driver(
        agent, job,
        TransferCounters{
            {{.path = DirectPath::shm, .transfers = transfers, .bytes = 10 * transfers},
             {.path = static_cast<DirectPath>(200), .transfers = 1}}});
  }
  Json document() { return Json::parse(cluster.replies.at(0).json, nullptr, false); }
  Json counted() { return Json::parse(send_query("status", "").json, nullptr, false)["transfers"]; }

  std::map<int, TransfersRequest> last_queries;  // latest query to the driver of each job
  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
};

TEST_F(TransferQuestions, CollectsTransfersLatestFirst) {
  send_query("list", "transfers");
  EXPECT_TRUE(cluster.replies.empty()) << "no process has replied yet";
  answers(1, {3s, 5s}, 4);
  answers(2, {1s, 4s});
  const Json list = document();
  EXPECT_EQ(list["kind"], "TransferList");
  ASSERT_EQ(list["items"].size(), 4u);
  EXPECT_EQ(list["items"][0]["since_ms"], 1000);
  EXPECT_EQ(list["items"][1]["since_ms"], 3000);
  const auto at = [&](int item) {
    return list["items"][static_cast<std::size_t>(item)]["since_at"].get<std::string>();
  };
  EXPECT_EQ(at(0).size(), std::string("2026-11-24T02:33:12.345Z").size()) << at(0);
  EXPECT_GT(at(0), at(1)) << "one has ended later";
  EXPECT_EQ(list["items"][0]["process_id"], SmallCluster::driver(2).hex());
  EXPECT_EQ(list["items"][0]["peer_node_id"], agent.node.hex());
  EXPECT_EQ(list["items"][0]["encrypted"], true);
  EXPECT_NE(list["warnings"].dump().find("4 more"), std::string::npos) << list["warnings"];
}

TransferFact stored_object(JobId job, Duration ago) {
  TransferFact fact;
  fact.object = ObjectId::of(8);
  fact.size_bytes = 1 << 20;
  fact.ago = ago;
  fact.holder_node = NodeId::of(9);
  fact.job = job;
  return fact;
}

TEST_F(TransferQuestions, ListsObjectsTransferredToNodes) {
  agent.stored = {stored_object(JobId::of(2), 2s)};
  send_query("list", "transfers");
  answers(1, {1s});
  answers(2, {});
  const Json items = document()["items"];
  ASSERT_EQ(items.size(), 2u) << document();
  EXPECT_EQ(items[1]["path"], "store");
  EXPECT_EQ(items[1]["object_id"], ObjectId::of(8).hex());
  EXPECT_EQ(items[1]["process_id"], agent.incarnation.hex());
  EXPECT_EQ(items[1]["node_id"], agent.node.hex());
  EXPECT_EQ(items[1]["peer_node_id"], NodeId::of(9).hex());
  EXPECT_EQ(items[1]["peer"], "");
  EXPECT_EQ(items[1]["job_id"], JobId::of(2).hex());
  EXPECT_TRUE(document()["warnings"].empty()) << document()["warnings"];
}

TransferFact on_its_way(TransferState state, Duration ago) {
  TransferFact fact = stored_object(JobId::of(1), ago);
  fact.state = state;
  fact.whole_bytes = 3 << 20;
  fact.sources = {NodeId::of(9), NodeId::of(10)};
  fact.moved = 1s;
  if (state == TransferState::pending) fact.refusals = {"it waits for space"};
  return fact;
}

TEST_F(TransferQuestions, ListsPendingTransfersFirstWithProgress) {
  agent.stored = {on_its_way(TransferState::pending, 2s), on_its_way(TransferState::running, 30s),
                  on_its_way(static_cast<TransferState>(77), 1s), stored_object(JobId::of(2), 2s)};
  send_query("list", "transfers");
  EXPECT_EQ(query(1).under_way, (std::vector{TransferState::running, TransferState::pending}));
  answers(1, {1s});
  answers(2, {});
  const Json items = document()["items"];
  ASSERT_EQ(items.size(), 4u) << "a transfer of an unknown state is not listed: " << document();
  EXPECT_EQ(items[0]["state"], "RUNNING");
  EXPECT_EQ(items[0]["bytes"], 1 << 20);
  EXPECT_EQ(items[0]["size_bytes"], 3 << 20);
  EXPECT_EQ(items[0]["source_node_ids"], Json({NodeId::of(9).hex(), NodeId::of(10).hex()}));
  EXPECT_EQ(items[0]["peer_node_id"], NodeId::of(9).hex());
  EXPECT_EQ(items[0]["since_ms"], 30'000) << "wanted since then";
  EXPECT_EQ(items[0]["wire_seconds"], 1.0);
  EXPECT_EQ(items[1]["state"], "PENDING");
  EXPECT_EQ(items[1]["reason"], "it waits for space");
  EXPECT_EQ(items[2]["state"], "FINISHED");
  EXPECT_TRUE(items[2]["size_bytes"].is_null());
  EXPECT_TRUE(document()["warnings"].empty()) << document()["warnings"];
}

TEST_F(TransferQuestions, StateFilter_RequestsOnlyPendingTransfers) {
  for (const auto& [name, state] : {std::pair("RUNNING", TransferState::running),
                                    std::pair("PENDING", TransferState::pending)}) {
    agent.stored = {on_its_way(TransferState::pending, 2s), on_its_way(TransferState::running, 3s),
                    stored_object(JobId::of(2), 2s)};
    send_query("list", "transfers", std::string(R"({"state": ")") + name + "\"}");
    EXPECT_EQ(query(1).under_way, std::vector{state});
    EXPECT_TRUE(query(1).failed_only && query(1).arrived_only)
        << "so that an earlier release lists nothing";
    answers(1, {1s});
    answers(2, {});
    const Json items = document()["items"];
    ASSERT_EQ(items.size(), 1u) << document();
    EXPECT_EQ(items[0]["state"], name);
  }
  send_query("list", "transfers", R"({"state": "FAILED"})");
  EXPECT_TRUE(query(1).under_way.empty());
  EXPECT_FALSE(query(1).arrived_only);
  EXPECT_EQ(send_query("list", "transfers", R"({"state": "ENDED"})").code,
            ErrorCode::invalid_argument);
}

TEST_F(TransferQuestions, FiltersByReceivingNodeAndObject) {
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(1));
  other.stored = {on_its_way(TransferState::running, 3s)};
  agent.stored = {on_its_way(TransferState::running, 3s)};
  send_query("list", "transfers", R"({"node_id": ")" + other.node.hex() + "\"}");
  ASSERT_EQ(cluster.replies.size(), 1u) << "the drivers of the other node are not asked";
  ASSERT_EQ(document()["items"].size(), 1u);
  EXPECT_EQ(document()["items"][0]["node_id"], other.node.hex());

  send_query("list", "transfers", R"({"object_id": ")" + ObjectId::of(8).hex() + "\"}");
  EXPECT_EQ(query(1).object, ObjectId::of(8));
  answers(1, {1s});  // another object, as from a process that does not know the filter
  answers(2, {});
  EXPECT_EQ(document()["items"].size(), 2u) << document();
  EXPECT_EQ(send_query("list", "transfers", R"({"object_id": "x"})").code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(send_query("list", "transfers", R"({"node_id": "x"})").code,
            ErrorCode::invalid_argument);
}

// The driver of a job is a user program and may be malicious.
TEST_F(TransferQuestions, LimitsRowsOfDishonestProcess) {
  TransferFact lie = on_its_way(TransferState::running, -5s);
  lie.sources.assign(100'000, NodeId::of(9));
  lie.refusals.assign(1000, "no");
  lie.refusals.front() = std::string(100'000, 'x');
  lie.group = lie.operation = lie.refusals.front();
  send_query("list", "transfers");
  TransfersReply reply{.request = query(1).request, .transfers = {lie}, .knows_under_way = true};
  TransferFact more = on_its_way(TransferState::running, 0s);
  reply.transfers.resize(query(1).limit + 7, more);
  cluster.from_driver(agent, 1, reply);
  answers(2, {1s});
  const Json list = document();
  ASSERT_EQ(list["items"].size(), query(1).limit + 1) << list["warnings"];
  EXPECT_NE(list["warnings"].dump().find("and 7 more"), std::string::npos) << list["warnings"];
  const Json& first = list["items"][0];
  EXPECT_EQ(first["source_node_ids"].size(), TransferFact::max_sources);
  EXPECT_EQ(first["refusals"].size(), TransferFact::max_refusals);
  EXPECT_LT(first.dump().size(), 20'000u);
  EXPECT_EQ(first["since_ms"], 0);
}

TEST_F(TransferQuestions, LimitKeepsLatestOfAllProcesses) {
  send_query("list", "transfers", R"({"limit": "2"})");
  EXPECT_EQ(query(1).limit, 2u);
  answers(1, {5s, 1s});
  answers(2, {3s, 2s});
  const Json list = document();
  ASSERT_EQ(list["items"].size(), 2u);
  EXPECT_EQ(list["items"][0]["since_ms"], 1000);
  EXPECT_EQ(list["items"][1]["since_ms"], 2000);
  EXPECT_NE(list["warnings"].dump().find("and 2 more"), std::string::npos) << list["warnings"];
  EXPECT_EQ(send_query("list", "transfers", R"({"limit": "0"})").code, ErrorCode::invalid_argument);
}

TEST_F(TransferQuestions, CountsProcessesWithoutPendingTransfers) {
  agent.knows_under_way = false;
  agent.stored = {stored_object(JobId::of(2), 2s)};
  send_query("list", "transfers");
  answers(1, {});
  answers(2, {});
  EXPECT_EQ(document()["items"].size(), 1u);
  EXPECT_NE(document()["warnings"].dump().find("1 of the queried processes run an older Mobula"),
            std::string::npos)
      << document();
  send_query("list", "transfers", R"({"state": "FINISHED"})");
  answers(1, {});
  answers(2, {});
  EXPECT_TRUE(document()["warnings"].empty())
      << "pending transfers were not requested: " << document();
}

TEST_F(TransferQuestions, NamesOldAgentsAndSkipsDeadOnes) {
  TestAgent& older = cluster.node_joins(2, SmallCluster::shape(1));
  older.protocol = version_with_stored_transfers - 1;
  cluster.comes_back_as(older, 777);
  TestAgent& silent = cluster.node_joins(3, SmallCluster::shape(1));
  silent.tells_of_objects = false;
  send_query("list", "transfers");
  answers(1, {});
  answers(2, {});
  EXPECT_TRUE(cluster.replies.empty()) << "one agent has not replied";
  EXPECT_EQ(cluster.take<TransfersRequest>(silent).size(), 1u);
  EXPECT_TRUE(cluster.take<TransfersRequest>(older).empty()) << "it could not read the question";
  cluster.comes_back_as(silent, 778);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_NE(document()["warnings"].dump().find("1 nodes run an older Mobula"), std::string::npos)
      << document();

  silent.tells_of_objects = false;
  send_query("list", "transfers");
  answers(1, {});
  answers(2, {});
  cluster.pass(3s);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_NE(document()["warnings"].dump().find("the agent of node " + silent.node.brief()),
            std::string::npos)
      << document();
}

TEST_F(TransferQuestions, SendsFiltersToProcessesOrRejectsThem) {
  send_query("list", "transfers",
             R"({"path": "tcp", "state": "FAILED", "job_id": ")" + JobId::of(2).hex() + "\"}");
  EXPECT_EQ(query(1).request, 0u) << "of another job";
  const TransfersRequest question = query(2);
  EXPECT_EQ(question.paths, std::vector{DirectPath::tcp});
  EXPECT_TRUE(question.failed_only);
  EXPECT_TRUE(question.under_way.empty());
  TransfersReply none;
  none.request = question.request;
  cluster.from_driver(agent, 2, none);
  EXPECT_TRUE(document()["items"].empty());
  EXPECT_EQ(send_query("list", "transfers", R"({"path": "pigeon"})").code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(send_query("list", "transfers", R"({"shade": "red"})").code,
            ErrorCode::invalid_argument);
}

TEST_F(TransferQuestions, NamesSilentProcessAndSkipsEndedOne) {
  send_query("list", "transfers");
  cluster.driver_dies(agent, 2);
  EXPECT_TRUE(cluster.replies.empty());
  cluster.pass(2s);
  const Json list = document();
  ASSERT_EQ(list["warnings"].size(), 1u);
  EXPECT_NE(list["warnings"][0].get<std::string>().find(SmallCluster::driver(1).brief()),
            std::string::npos);
}

TEST_F(TransferQuestions, KeepsCompleteCountsOfEndedProcesses) {
  counts(1, 3);
  counts(2, 5);
  counts(1, 4);  // replaces 3
  Json now = counted();
  ASSERT_EQ(now.size(), 1u) << "an unknown path is skipped: " << now;
  EXPECT_EQ(now[0]["path"], "shm");
  EXPECT_EQ(now[0]["transfers"], 9);
  EXPECT_EQ(now[0]["bytes"], 90);
  cluster.driver_dies(agent, 1);
  counts(2, 6);
  EXPECT_EQ(counted()[0]["transfers"], 10);
  const Json nodes = Json::parse(send_query("list", "nodes").json, nullptr, false);
  EXPECT_EQ(nodes["items"][0]["transfers"][0]["transfers"], 10);
}

TEST_F(TransferQuestions, CountsStoredTransfersFromHeartbeats) {
  const auto heartbeat = [&](TestAgent& of, std::uint64_t transfers) {
    AgentFrame frame{of.registered->head_epoch, of.incarnation, 0, 0, {}};
    frame.stored = {{.path = DirectPath::store,
                     .transfers = transfers,
                     .bytes = 100 * transfers,
                     .encrypted = transfers}};
    cluster.raw(of, frame);
  };
  const auto changes = [&] {
    return Json::parse(send_query("changes", "").json, nullptr, false)["number"]
        .get<std::uint64_t>();
  };
  heartbeat(agent, 3);
  const auto before = changes();
  heartbeat(agent, 3);
  EXPECT_EQ(changes(), before) << "the report has no change";
  heartbeat(agent, 5);
  EXPECT_GT(changes(), before) << "a change reaches watchers of the status";
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(1));
  heartbeat(other, 7);
  EXPECT_EQ(counted()[0]["path"], "store");
  EXPECT_EQ(counted()[0]["transfers"], 12);
  EXPECT_EQ(counted()[0]["bytes"], 1200);
  const auto of_node = [&](const TestAgent& of) {
    const Json nodes = Json::parse(send_query("list", "nodes").json, nullptr, false);
    for (const auto& each : nodes["items"]) {
      if (each["node_id"] == of.node.hex()) return each["transfers"];
    }
    return Json();
  };
  EXPECT_EQ(of_node(other)[0]["transfers"], 7);
  cluster.raw(other, AgentStopped{other.incarnation,
                                  {{.path = DirectPath::store, .transfers = 8, .bytes = 800}}});
  EXPECT_EQ(counted()[0]["transfers"], 13);
  heartbeat(other, 100);
  EXPECT_EQ(counted()[0]["transfers"], 13) << "a heartbeat of a node that left is ignored";
  heartbeat(agent, 6);
  EXPECT_EQ(counted()[0]["transfers"], 14);
}

}  // namespace
}  // namespace mobula::internal::head
