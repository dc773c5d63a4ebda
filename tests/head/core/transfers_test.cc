// Questions about tensors that went between processes, and what is counted of them for as long as the head lives.
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

  ToolReply ask(const std::string& verb, const std::string& kind, const std::string& argument = "") {
    ToolRequest request;
    request.request = 9;
    request.verb = verb;
    request.kind = kind;
    request.argument = argument;
    cluster.replies.clear();
    cluster.step(ToolSaid{77, Principal{Role::observer, "tool", {}}, request});
    return cluster.replies.empty() ? ToolReply{} : cluster.replies[0];
  }
  AskTransfers asked(int job) {
    const auto questions = cluster.heard<AskTransfers>(agent, SmallCluster::driver(job));
    return questions.empty() ? AskTransfers{} : questions.back();
  }
  void answers(int job, std::vector<Duration> ages, std::uint64_t left_out = 0) {
    TransfersTold told;
    told.request = asked(job).request;
    told.left_out = left_out;
    for (const Duration ago : ages) {
      TransferFact& fact = told.transfers.emplace_back();
      fact.object = ObjectId::of(7);
      fact.holder = SmallCluster::driver(1);
      fact.path = DirectPath::tcp;
      fact.size_bytes = 1000;
      fact.encrypted = true;
      fact.ago = ago;
    }
    cluster.driver_says(agent, job, told);
  }
  void counts(int job, std::uint64_t transfers) {
    cluster.driver_says(agent, job, TransfersCounted{{{.path = DirectPath::shm, .transfers = transfers, .bytes = 10 * transfers},
                                                      {.path = static_cast<DirectPath>(200), .transfers = 1}}});
  }
  Json document() { return Json::parse(cluster.replies.at(0).json, nullptr, false); }
  Json counted() { return Json::parse(ask("status", "").json, nullptr, false)["transfers"]; }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
};

TEST_F(TransferQuestions, AreGatheredFromAllProcessesLatestFirst) {
  ask("list", "transfers");
  EXPECT_TRUE(cluster.replies.empty()) << "nobody has answered yet";
  answers(1, {3s, 5s}, 4);
  answers(2, {1s, 4s});
  const Json list = document();
  EXPECT_EQ(list["kind"], "TransferList");
  ASSERT_EQ(list["items"].size(), 4u);
  EXPECT_EQ(list["items"][0]["since_ms"], 1000);
  EXPECT_EQ(list["items"][1]["since_ms"], 3000);
  const auto at = [&](int item) { return list["items"][static_cast<std::size_t>(item)]["since_at"].get<std::string>(); };
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

TEST_F(TransferQuestions, AgentsSayWhichObjectsCameToTheirNodes) {
  agent.stored = {stored_object(JobId::of(2), 2s)};
  ask("list", "transfers");
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

TEST_F(TransferQuestions, AgentsThatCannotSayAreNamedAndThoseThatDieNotWaitedFor) {
  TestAgent& older = cluster.node_joins(2, SmallCluster::shape(1));
  older.protocol = version_with_stored_transfers - 1;
  cluster.comes_back_as(older, 777);
  TestAgent& silent = cluster.node_joins(3, SmallCluster::shape(1));
  silent.tells_of_objects = false;
  ask("list", "transfers");
  answers(1, {});
  answers(2, {});
  EXPECT_TRUE(cluster.replies.empty()) << "one agent has not answered";
  EXPECT_EQ(cluster.take<AskTransfers>(silent).size(), 1u);
  EXPECT_TRUE(cluster.take<AskTransfers>(older).empty()) << "it could not read the question";
  cluster.comes_back_as(silent, 778);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_NE(document()["warnings"].dump().find("1 nodes have an older Mobula"), std::string::npos) << document();

  silent.tells_of_objects = false;
  ask("list", "transfers");
  answers(1, {});
  answers(2, {});
  cluster.pass(3s);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_NE(document()["warnings"].dump().find("the agent of node " + silent.node.brief()), std::string::npos) << document();
}

TEST_F(TransferQuestions, FiltersGoToTheProcessesOrAreRefused) {
  ask("list", "transfers", R"({"path": "tcp", "state": "FAILED", "job_id": ")" + JobId::of(2).hex() + "\"}");
  EXPECT_EQ(asked(1).request, 0u) << "of another job";
  const AskTransfers question = asked(2);
  EXPECT_EQ(question.paths, std::vector{DirectPath::tcp});
  EXPECT_TRUE(question.failed_only);
  TransfersTold none;
  none.request = question.request;
  cluster.driver_says(agent, 2, none);
  EXPECT_TRUE(document()["items"].empty());
  EXPECT_EQ(ask("list", "transfers", R"({"path": "pigeon"})").code, ErrorCode::invalid_argument);
  EXPECT_EQ(ask("list", "transfers", R"({"colour": "red"})").code, ErrorCode::invalid_argument);
}

TEST_F(TransferQuestions, WhoIsSilentIsNamedAndWhoHasEndedIsNotWaitedFor) {
  ask("list", "transfers");
  cluster.driver_dies(agent, 2);
  EXPECT_TRUE(cluster.replies.empty());
  cluster.pass(2s);
  const Json list = document();
  ASSERT_EQ(list["warnings"].size(), 1u);
  EXPECT_NE(list["warnings"][0].get<std::string>().find(SmallCluster::driver(1).brief()), std::string::npos);
}

TEST_F(TransferQuestions, CountsAreWholeAndOutliveTheirProcess) {
  counts(1, 3);
  counts(2, 5);
  counts(1, 4);  // in the place of 3
  Json now = counted();
  ASSERT_EQ(now.size(), 1u) << "what is no path is passed over: " << now;
  EXPECT_EQ(now[0]["path"], "shm");
  EXPECT_EQ(now[0]["transfers"], 9);
  EXPECT_EQ(now[0]["bytes"], 90);
  cluster.driver_dies(agent, 1);
  counts(2, 6);
  EXPECT_EQ(counted()[0]["transfers"], 10);
  const Json nodes = Json::parse(ask("list", "nodes").json, nullptr, false);
  EXPECT_EQ(nodes["items"][0]["transfers"][0]["transfers"], 10);
}

}  // namespace
}  // namespace mobula::internal::head
