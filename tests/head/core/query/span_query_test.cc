// Tests timeline queries of tools to the processes that know the times of calls, and back.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class SpanQuery : public testing::Test {
 protected:
  SpanQuery() {
    cluster.driver_starts_job(agent, 1);
    cluster.driver_starts_job(agent, 2);
  }
  void send_query(const std::string& job = "") {
    ToolRequest request;
    request.request = 9;
    request.verb = "timeline";
    request.argument = job;
    cluster.replies.clear();
    cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
  }
  SpansRequest query(int job) {
    const auto questions = cluster.received<SpansRequest>(agent, SmallCluster::driver(job));
    EXPECT_EQ(questions.size(), 1u);
    return questions.empty() ? SpansRequest{} : questions[0];
  }
  void answers(int job, std::uint64_t request, std::size_t calls = 1) {
    SpansReply reply;
    reply.request = request;
    reply.wall_us = 1000;
    reply.names = {"f"};
    for (std::size_t i = 0; i < calls; ++i) {
      reply.owned.push_back(
          {TaskId::random(), 0, 3ms, 2ms, 1ms, ProcessId::of(4), false, {}, {}, 0});
    }
    cluster.from_driver(agent, job, reply);
  }
  std::vector<ProcessSpans> spans() {
    auto spans = decode<std::vector<ProcessSpans>>(cluster.replies.at(0).bytes.bytes());
    EXPECT_TRUE(spans.ok());
    return spans.ok() ? *spans : std::vector<ProcessSpans>{};
  }
  Json document() { return Json::parse(cluster.replies.at(0).json); }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
};

TEST_F(SpanQuery, QueriesAllProcessesAndDescribesThem) {
  send_query();
  const auto first = query(1);
  const auto second = query(2);
  EXPECT_GT(first.limit, 0u);
  answers(1, first.request);
  EXPECT_TRUE(cluster.replies.empty()) << "one has not replied";
  answers(2, second.request);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_EQ(cluster.replies[0].request, 9u);
  EXPECT_EQ(spans().size(), 2u);
  const Json json = document();
  EXPECT_EQ(json["kind"], "Timeline");
  ASSERT_EQ(json["processes"].size(), 2u);
  EXPECT_EQ(json["processes"][0]["role"], "driver");
  EXPECT_EQ(json["processes"][0]["node_id"], agent.node.hex());
  EXPECT_TRUE(json["warnings"].empty());
}

TEST_F(SpanQuery, ReportsObjectsTransferredToNodes) {
  TransferFact fact;
  fact.object = ObjectId::of(8);
  fact.job = JobId::of(2);
  agent.stored = {fact};
  send_query();
  answers(1, query(1).request);
  answers(2, query(2).request);
  ASSERT_EQ(spans().size(), 3u);
  EXPECT_EQ(spans()[0].process, agent.incarnation);
  EXPECT_EQ(spans()[0].spans.transfers, agent.stored);
  EXPECT_EQ(document()["processes"][0]["role"], "agent");
  EXPECT_EQ(document()["processes"][0]["node_id"], agent.node.hex());
}

TEST_F(SpanQuery, KeepsFinalSpansOfAgentAndFiltersByJob) {
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(1), Role::driver_agent);
  SpansReply last;
  last.transfers.resize(3);
  last.transfers[0].job = JobId::of(1);
  last.transfers[1].job = JobId::of(2);
  cluster.from_agent(other, last);
  cluster.raw(other, AgentStopped{other.incarnation});
  send_query();
  answers(1, query(1).request);
  answers(2, query(2).request);
  ASSERT_EQ(spans().size(), 3u);
  EXPECT_EQ(spans()[2].process, other.incarnation);
  EXPECT_EQ(spans()[2].spans.transfers.size(), 3u);
  EXPECT_EQ(document()["processes"][2]["ended"], true);
  EXPECT_EQ(document()["processes"][2]["role"], "driver-agent");
  send_query(JobId::of(2).hex());
  answers(2, query(2).request);
  ASSERT_EQ(spans().size(), 2u);
  EXPECT_EQ(spans()[1].spans.transfers.size(), 2u)
      << "one transfer of the job, and one of unknown job";
}

TEST_F(SpanQuery, QueriesOnlyProcessesOfJob) {
  send_query(JobId::of(2).hex());
  EXPECT_TRUE(cluster.received<SpansRequest>(agent, SmallCluster::driver(1)).empty());
  answers(2, query(2).request);
  ASSERT_EQ(spans().size(), 1u);
  EXPECT_EQ(spans()[0].process, SmallCluster::driver(2));
  send_query("nonsense");
  EXPECT_EQ(cluster.replies.at(0).code, ErrorCode::invalid_argument);
}

TEST_F(SpanQuery, NamesSilentProcessAndSkipsEndedOne) {
  send_query();
  answers(1, query(1).request);
  cluster.pass(3s);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_EQ(spans().size(), 1u);
  EXPECT_FALSE(document()["warnings"].empty());
  send_query();
  answers(1, query(1).request);
  cluster.driver_dies(agent, 2);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_TRUE(document()["warnings"].empty());
}

TEST_F(SpanQuery, LimitsReplyAndReportsOmissions) {
  send_query();
  const auto first = query(1);
  answers(1, first.request, 150'000);
  answers(2, query(2).request, 150'000);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_LT(encode(cluster.replies[0]).size(), 16u << 20) << "else the tool refuses it";
  EXPECT_FALSE(document()["warnings"].empty());
}

TEST_F(SpanQuery, KeepsFinalSpansOfEndedProcess) {
  answers(2, 0, 3);
  EXPECT_TRUE(cluster.replies.empty()) << "no query is pending";
  cluster.driver_dies(agent, 2);
  send_query();
  answers(1, query(1).request);
  ASSERT_EQ(spans().size(), 2u);
  EXPECT_EQ(spans()[1].process, SmallCluster::driver(2));
  EXPECT_EQ(spans()[1].spans.owned.size(), 3u);
  EXPECT_EQ(document()["processes"][0]["ended"], false);
  EXPECT_EQ(document()["processes"][1]["ended"], true);
  EXPECT_EQ(document()["processes"][1]["job_id"], JobId::of(2).hex());
  EXPECT_EQ(document()["processes"][1]["node_id"], agent.node.hex());
  send_query(JobId::of(1).hex());
  answers(1, query(1).request);
  EXPECT_EQ(spans().size(), 1u) << "of another job";
}

TEST_F(SpanQuery, LimitsSpansOfEndedProcessesAndReportsLoss) {
  for (int job = 3; job < 16; ++job) {
    cluster.driver_starts_job(agent, job);
    answers(job, 0, 10'000);
    cluster.driver_dies(agent, job);
  }
  send_query();
  answers(1, query(1).request);
  answers(2, query(2).request);
  EXPECT_LT(encode(cluster.replies.at(0)).size(), 16u << 20);
  EXPECT_LT(spans().size(), 15u);
  EXPECT_GT(spans().size(), 8u);
  EXPECT_EQ(spans()[2].process, SmallCluster::driver(15)) << "the latest first";
  EXPECT_NE(document()["warnings"].dump().find("have ended"), std::string::npos);
  answers(1, 0, 100'000);
  send_query();
  answers(1, query(1).request);
  answers(2, query(2).request);
  EXPECT_NE(document()["warnings"].dump().find("have ended"), std::string::npos)
      << "one that says too much is not kept";
}

TEST_F(SpanQuery, SendsTaskIdToProcesses) {
  ToolRequest request;
  request.request = 9;
  request.verb = "timeline";
  request.kind = TaskId::of(5).hex();
  cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
  EXPECT_EQ(query(1).task, TaskId::of(5));
  request.kind = "5";
  cluster.replies.clear();
  cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
  EXPECT_EQ(cluster.replies.at(0).code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mobula::internal::head
