// Tests queries of tools for logs and usage, to the agents and back.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class NodeQuery : public testing::Test {
 protected:
  NodeQuery() { cluster.driver_starts_job(agent, 1); }

  void send_query(const std::string& verb, const std::string& argument = "",
                  const std::string& kind = "", Role role = Role::observer) {
    ToolRequest request;
    request.request = ++last_query;
    request.verb = verb;
    request.kind = kind;
    request.argument = argument;
    cluster.replies.clear();
    cluster.step(ReceivedFromTool{77, Principal{role, "tool", {}}, request});
  }
  Json document() {
    EXPECT_EQ(cluster.replies.size(), 1u);
    if (cluster.replies.empty()) return {};
    EXPECT_EQ(cluster.replies[0].request, last_query);
    EXPECT_TRUE(cluster.replies[0].ok) << cluster.replies[0].text;
    return Json::parse(cluster.replies[0].json);
  }
  ErrorCode refusal() {
    EXPECT_EQ(cluster.replies.size(), 1u);
    EXPECT_FALSE(cluster.replies.empty() || cluster.replies[0].ok);
    return cluster.replies.empty() ? ErrorCode::corrupt : cluster.replies[0].code;
  }
  void lists(TestAgent& of, std::vector<LogFact> logs) {
    const auto questions = cluster.take<LogsRequest>(of);
    ASSERT_EQ(questions.size(), 1u);
    LogsReply listed;
    listed.request = questions[0].request;
    listed.logs = std::move(logs);
    cluster.from_agent(of, listed);
  }
  // Starts a slot of job 1 on `agent` with an executor that answers calls.
  Endpoint executor() {
    cluster.wants(agent, cluster.demand_class(1, 1, {}), 1);
    slot = cluster.expect_start_slot(agent).slot;
    StartSlot start;
    start.slot = slot;
    return cluster.executor_ready(agent, start);
  }
  static std::string log_of(const Json& item) {
    return item["node_id"].get<std::string>() + "/" + item["log"].get<std::string>();
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(11, SmallCluster::shape(2));
  TestAgent& other = cluster.node_joins(12, SmallCluster::shape(2));
  SlotId slot;
  std::uint64_t last_query = 100;
};

TEST_F(NodeQuery, FindsExecutorLogDuringAndAfterLife) {
  const Endpoint endpoint = executor();
  for (const std::string& subject :
       {endpoint.process.hex(), slot.hex(), slot.hex().substr(0, 10)}) {
    send_query("logs", subject);
    const Json list = document();
    ASSERT_EQ(list["items"].size(), 1u) << subject << list;
    EXPECT_EQ(log_of(list["items"][0]), agent.node.hex() + "/" + log_of_slot(slot));
    EXPECT_EQ(list["items"][0]["open"], true);
    EXPECT_EQ(list["live"], true);
  }
  EndCause crash;
  crash.kind = EndKind::signalled;
  cluster.from_agent(agent, ProcessEnded{endpoint.process, crash});
  cluster.slot_gone(agent, slot);
  send_query("logs", endpoint.process.hex());
  const Json list = document();
  ASSERT_EQ(list["items"].size(), 1u) << "events remember where it was: " << list;
  EXPECT_EQ(log_of(list["items"][0]), agent.node.hex() + "/" + log_of_slot(slot));
}

TEST_F(NodeQuery, CollectsLogsOfJobFromAllNodes) {
  executor();
  send_query("logs", JobId::of(1).hex());
  EXPECT_TRUE(cluster.replies.empty());
  lists(agent, {{log_of_slot(slot), JobId::of(1), 10, 5, true}});
  EXPECT_TRUE(cluster.replies.empty()) << "one has not replied";
  lists(other, {{"slot-0badcafe", JobId::of(1), 7, 4, false}});
  const Json list = document();
  ASSERT_EQ(list["items"].size(), 2u) << list;
  EXPECT_EQ(list["items"][0]["size_bytes"], 10);
  EXPECT_EQ(list["items"][1]["log"], "slot-0badcafe");
  EXPECT_EQ(list["live"], true);
}

TEST_F(NodeQuery, PartOfLogsHasOpenOnesThenLatest) {
  send_query("logs", R"({"limit":3})", "part");
  lists(agent, {{"slot-00000001", JobId::of(1), 10, 900, false},
                {"slot-00000002", JobId::of(1), 10, 5, true},
                {"slot-00000003", JobId::of(1), 0, 950, true}});
  lists(other, {{"slot-00000004", JobId::of(1), 10, 800, false}});
  const Json list = document();
  EXPECT_EQ(list["total"], 5);
  EXPECT_EQ(list["matching"], 5);
  ASSERT_EQ(list["items"].size(), 3u);
  EXPECT_EQ(list["items"][0]["log"], "head");
  EXPECT_EQ(list["items"][1]["log"], "slot-00000002");
  EXPECT_EQ(list["items"][2]["log"], "slot-00000001") << "empty logs are last";
}

TEST_F(NodeQuery, PartOfLogsRequestsFewOfEachNode) {
  send_query("logs", R"({"limit":20})", "part");
  auto questions = cluster.take<LogsRequest>(agent);
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].limit, 20u);
  for (TestAgent* each : {&agent, &other}) {
    LogsReply listed;
    listed.request = questions[0].request;
    listed.logs = {{"agent", {}, 10, 5, true}};
    listed.left_out = 1000;
    cluster.from_agent(*each, listed);
  }
  const Json list = document();
  EXPECT_EQ(list["total"], 2003) << "with the log of the head";
  EXPECT_EQ(list["matching"], 2003);
  EXPECT_EQ(list["items"].size(), 3u);
  EXPECT_TRUE(list["warnings"].empty());
  for (int number = 20; number < 120; ++number) cluster.node_joins(number, SmallCluster::shape(1));
  cluster.take<LogsRequest>(other);
  send_query("logs", R"({"limit":200})", "part");
  questions = cluster.take<LogsRequest>(other);
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].limit, 8u) << "of 102 nodes";
  send_query("logs", R"({"limit":200,"find":"slot"})", "part");
  questions = cluster.take<LogsRequest>(other);
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_LE(questions[0].limit * 102, 20'000u);
}

TEST_F(NodeQuery, PartOfLogsFindsTextsAndProcesses) {
  const Endpoint endpoint = executor();
  const std::string log = log_of_slot(slot);
  const auto find = [&](const std::string& text) {
    send_query("logs", Json{{"limit", 10}, {"find", text}}.dump(), "part");
    lists(agent, {{log, JobId::of(1), 10, 5, true}, {"agent", {}, 10, 5, true}});
    LogsReply listed;
    listed.request = cluster.take<LogsRequest>(other).at(0).request;
    listed.logs = {{"slot-0badcafe", JobId::of(2), 7, 4, false}};
    listed.left_out = 3;
    cluster.from_agent(other, listed);
    return document();
  };
  for (const auto& text : {endpoint.process.hex(), log, JobId::of(1).hex()}) {
    const Json list = find(text);
    ASSERT_EQ(list["items"].size(), 1u) << text << list;
    EXPECT_EQ(list["items"][0]["log"], log);
    EXPECT_EQ(list["matching"], 1);
    EXPECT_EQ(list["total"], 7);
    ASSERT_EQ(list["warnings"].size(), 1u);
    EXPECT_EQ(list["warnings"][0], "3 older logs were not searched");
  }
  EXPECT_EQ(find(endpoint.process.hex())["items"][0]["process_id"], endpoint.process.hex());
  EXPECT_EQ(find(agent.node.hex())["matching"], 2);
  EXPECT_EQ(find("SLOT-0bad")["matching"], 1) << "in any case";
  send_query("logs", R"({"limit":0})", "part");
  EXPECT_EQ(refusal(), ErrorCode::invalid_argument);
}

TEST_F(NodeQuery, NodeDead_LogListedWithReason) {
  const Endpoint endpoint = executor();
  agent.silent = true;
  cluster.pass(30s);
  send_query("logs", endpoint.process.hex());
  Json list = document();
  ASSERT_EQ(list["items"].size(), 1u) << list;
  EXPECT_NE(list["items"][0]["reason"].get<std::string>().find("is dead"), std::string::npos)
      << list;
  send_query("logs", agent.node.hex());
  list = document();
  ASSERT_EQ(list["items"].size(), 1u);
  EXPECT_FALSE(list["items"][0]["reason"].is_null());
  send_query("log", Json{{"node_id", agent.node.hex()}, {"log", "agent"}}.dump());
  EXPECT_EQ(refusal(), ErrorCode::not_found);
}

TEST_F(NodeQuery, ReadsLogInChunksAtPositionFromAgent) {
  const std::string of = Json{{"node_id", other.node.hex()}, {"log", "slot-0badcafe"}}.dump();
  send_query("log", of, "0:-500");
  const auto reads = cluster.take<ReadLogRequest>(other);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].log, "slot-0badcafe");
  EXPECT_EQ(reads[0].from, -500);
  EXPECT_LE(reads[0].limit, 1u << 20);
  ReadLogReply part;
  part.request = reads[0].request;
  part.bytes = Payload(Bytes(3, std::byte{'x'}));
  part.next_file = 12;
  part.next_from = 34;
  part.left = 9;
  cluster.from_agent(agent, part);
  EXPECT_TRUE(cluster.replies.empty()) << "another node was asked";
  cluster.from_agent(other, part);
  EXPECT_EQ(document()["next"], "12:34");
  EXPECT_EQ(cluster.replies[0].bytes.size(), 3u);
  cluster.from_agent(other, part);  // repeated: the query is complete
  send_query("log", of);
  ReadLogReply none;
  none.request = cluster.take<ReadLogRequest>(other)[0].request;
  none.fault = "no such log exists";
  cluster.from_agent(other, none);
  EXPECT_EQ(refusal(), ErrorCode::not_found);
}

TEST_F(NodeQuery, RejectsPathsInLogNames) {
  for (const std::string& log : {std::string("../../etc/passwd"), std::string("slot-a/b"),
                                 std::string("a.log"), std::string(), std::string(65, 'a')}) {
    send_query("log", Json{{"node_id", other.node.hex()}, {"log", log}}.dump());
    EXPECT_EQ(refusal(), ErrorCode::invalid_argument) << log;
  }
  for (const char* wrong : {"", "[]", "{}", "{\"node_id\": 1}", "no json"}) {
    send_query("log", wrong);
    EXPECT_EQ(refusal(), ErrorCode::invalid_argument) << wrong;
  }
  send_query("log", Json{{"node_id", other.node.hex()}, {"log", "agent"}}.dump(), "12:x");
  EXPECT_EQ(refusal(), ErrorCode::invalid_argument);
  EXPECT_TRUE(cluster.take<ReadLogRequest>(other).empty());
}

TEST_F(NodeQuery, LimitsConcurrentReadsAndReportsTimeout) {
  const std::string of = Json{{"node_id", other.node.hex()}, {"log", "agent"}}.dump();
  for (int i = 0; i < 128; ++i) send_query("log", of);
  EXPECT_TRUE(cluster.replies.empty());
  send_query("log", of);
  EXPECT_EQ(refusal(), ErrorCode::resource_exhausted);
  cluster.replies.clear();
  cluster.pass(3s);
  ASSERT_EQ(cluster.replies.size(), 128u);
  EXPECT_EQ(cluster.replies[0].code, ErrorCode::timed_out);
  send_query("logs");
  lists(agent, {});
  cluster.pass(3s);
  EXPECT_FALSE(document()["warnings"].empty());
}

TEST_F(NodeQuery, ReportsUsageOfAllNodesWithTasks) {
  executor();
  send_query("usage");
  for (TestAgent* each : {&agent, &other}) {
    const auto questions = cluster.take<UsageRequest>(*each);
    ASSERT_EQ(questions.size(), 1u);
    UsageReply reply;
    reply.request = questions[0].request;
    reply.at = 5s;
    reply.cpu = 2s;
    reply.cpus = 4;
    reply.wall_ms = each == &agent ? 7'000 : 0;
    if (each == &agent)
      reply.executors.push_back({slot, 4242, "f", 1500ms, 100, 60, 3, {{0, 7}}, true});
    cluster.from_agent(*each, reply);
  }
  const Json usage = document();
  ASSERT_EQ(usage["nodes"].size(), 2u);
  EXPECT_EQ(usage["nodes"][0]["cpu_s"], 2.0);
  EXPECT_EQ(usage["nodes"][0]["clock_ms"], 7'000);
  EXPECT_TRUE(usage["nodes"][0]["head_clock_ms"].is_number());
  EXPECT_TRUE(usage["nodes"][1]["clock_ms"].is_null()) << "an agent of an earlier release";
  ASSERT_EQ(usage["items"].size(), 1u);
  EXPECT_EQ(usage["items"][0]["job_id"], JobId::of(1).hex());
  EXPECT_EQ(usage["items"][0]["cpu_s"], 1.5);
  EXPECT_EQ(usage["items"][0]["gpus"][0]["used_bytes"], 7);
  EXPECT_EQ(usage["items"][0]["partial"], true);
  ASSERT_EQ(usage["warnings"].size(), 1u) << usage["warnings"];
  EXPECT_NE(
      usage["warnings"][0].get<std::string>().find("the usage of 1 executors is not complete"),
      std::string::npos)
      << usage["warnings"];
  send_query("usage", "no-such-node");
  EXPECT_EQ(refusal(), ErrorCode::not_found);
}

TEST_F(NodeQuery, RejectsRolesWithoutReadAccess) {
  for (const char* verb : {"logs", "log", "usage", "changes"}) {
    send_query(verb, "", "", Role::metrics);
    EXPECT_EQ(refusal(), ErrorCode::permission_denied) << verb;
  }
}

TEST_F(NodeQuery, CountsOnlyVisibleChanges) {
  const auto count = [&] {
    send_query("changes");
    return document()["number"].get<std::uint64_t>();
  };
  const auto at_rest = count();
  EXPECT_EQ(count(), at_rest) << "asking is no change";
  cluster.pass(2s);
  EXPECT_EQ(count(), at_rest) << "a heartbeat is no change";
  send_query("logs");
  lists(agent, {});
  lists(other, {});
  EXPECT_EQ(count(), at_rest) << "nor are answers";
  executor();
  const auto with_executor = count();
  EXPECT_GT(with_executor, at_rest);
  agent.silent = true;
  cluster.pass(30s);
  EXPECT_GT(count(), with_executor) << "a node has died";
}

}  // namespace
}  // namespace mobula::internal::head
