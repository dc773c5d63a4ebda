// Tests the event log of the head and the replies about it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class Events : public testing::Test {
 protected:
  Json list(const Json& filters = Json::object()) {
    const auto answer = cluster.tool("list", "events", filters.dump(), Role::observer);
    EXPECT_TRUE(answer.ok) << answer.text;
    return Json::parse(answer.json, nullptr, false);
  }
  std::vector<Json> of_kind(const std::string& kind) {
    std::vector<Json> found;
    const Json all = list({{"severity", "debug"}, {"kind", kind}});
    for (const auto& each : all["items"]) found.push_back(each);
    return found;
  }
  std::string submit(int number) {
    const Json spec = {{"job_id", JobId::of(static_cast<unsigned>(number)).hex()},
                       {"argv", {"/bin/work"}}};
    EXPECT_TRUE(cluster.tool("submit", "", spec.dump()).ok);
    return spec["job_id"];
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
};

TEST_F(Events, RecordsNodeJoinAndDeath) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(1));
  other.silent = true;
  cluster.pass(15s);
  const auto joined = of_kind("NODE_JOINED");
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[1]["node_id"], other.node.hex());
  EXPECT_EQ(joined[1]["severity"], "INFO");
  EXPECT_EQ(joined[1]["source"], "agent") << "the process that reported it";
  ASSERT_EQ(of_kind("NODE_SUSPECT").size(), 1u);
  EXPECT_EQ(of_kind("NODE_SILENT"), of_kind("NODE_SUSPECT")) << "the name of the previous release";
  const auto died = of_kind("NODE_DIED");
  ASSERT_EQ(died.size(), 1u);
  EXPECT_EQ(died[0]["severity"], "ERROR");
  EXPECT_EQ(died[0]["source"], "head") << "the head concluded it without a report";
  EXPECT_EQ(died[0]["node_id"], other.node.hex());
  EXPECT_NE(died[0]["text"].get<std::string>().find("no message from it arrived"),
            std::string::npos);
  const std::string time = died[0]["time"];
  EXPECT_EQ(time.size(), std::string("2026-11-24T02:33:12.345Z").size()) << time;
}

TEST_F(Events, RejectsUnknownKindAndListsKnownKinds) {
  for (const char* kind : {"FOO", "foo_*"}) {
    const auto answer = cluster.tool("list", "events", Json{{"kind", kind}}.dump());
    EXPECT_EQ(answer.code, ErrorCode::invalid_argument) << kind;
    EXPECT_NE(answer.text.find("NODE_DIED"), std::string::npos) << answer.text;
  }
  EXPECT_TRUE(cluster.tool("list", "events", Json{{"kind", "node_died"}}.dump()).ok);
  EXPECT_TRUE(cluster.tool("list", "events", Json{{"kind", "JOB_*"}}.dump()).ok);
}

TEST_F(Events, NamesRequesterOfOrder) {
  ASSERT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  const auto drained = of_kind("NODE_DRAINING");
  ASSERT_EQ(drained.size(), 1u);
  EXPECT_EQ(drained[0]["source"], "operator");
  ASSERT_TRUE(cluster.tool("undrain", "", agent.node.hex()).ok);
  ASSERT_TRUE(cluster.tool("undrain", "", agent.node.hex()).ok);
  const auto taken_back = of_kind("NODE_UNDRAINED");
  ASSERT_EQ(taken_back.size(), 1u);
  EXPECT_EQ(taken_back[0]["source"], "operator");
  EXPECT_FALSE(cluster.tool("drain", "", agent.node.hex(), Role::observer).ok);
  const auto refused = of_kind("REQUEST_REFUSED");
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0]["source"], "observer");
  EXPECT_EQ(refused[0]["severity"], "WARNING");
}

TEST_F(Events, RecordsJobFromSubmissionToEnd) {
  const auto id = submit(0x7777);
  const auto start = cluster.expect_start_slot(agent);
  cluster.from_agent(agent, SlotStarted{start.slot, start.first_generation, {}, {}});
  cluster.from_agent(agent,
                     ActorConstructed{start.actor.actor, start.slot, start.first_generation, {}});
  EndCause cause;
  cause.exit_code = 3;
  cluster.from_agent(agent, SlotGenerationEnded{start.slot, start.first_generation, {}, cause});
  cluster.from_agent(agent, SlotGone{start.slot, cause, false});
  std::vector<std::string> kinds;
  const Json events = list({{"id", id}});
  for (const auto& each : events["items"]) kinds.push_back(each["kind"]);
  EXPECT_EQ(kinds, (std::vector<std::string>{"JOB_SUBMITTED", "JOB_STARTED", "JOB_ENDED"}));
  EXPECT_EQ(of_kind("JOB_ENDED")[0]["severity"], "ERROR");
  EXPECT_EQ(of_kind("JOB_SUBMITTED")[0]["source"], "operator");
}

TEST_F(Events, ReportsStartFailureAndNextRetry) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}}), 1);
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cause.text = "program file app is not available; it is tried again in 0.5 s";
  cluster.from_agent(agent, SlotGone{cluster.expect_start_slot(agent).slot, cause, false});
  auto events = of_kind("PROGRAM_START_FAILED");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["severity"], "WARNING");
  EXPECT_NE(events[0]["text"].get<std::string>().find("tried again in 0.5 s"), std::string::npos)
      << events[0];
  cause.text = "libx.so: cannot open";
  cluster.from_agent(agent, SlotGone{cluster.expect_start_slot(agent).slot, cause, true});
  events = of_kind("PROGRAM_START_FAILED");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(
      std::ranges::count(events, "ERROR",
                         [](const Json& each) { return each["severity"].get<std::string>(); }),
      1);
}

TEST_F(Events, ReportsCauseOfActorRestartAndDeath) {
  cluster.driver_starts_job(agent, 1);
  auto spec = cluster.actor(1, 1);
  spec.max_restarts = 1;
  cluster.creates(agent, spec);
  for (int life = 0; life < 2; ++life) {
    const auto slot = cluster.actor_comes_alive(agent);
    EndCause cause;
    cause.kind = EndKind::signalled;
    cause.signal = 9;
    cluster.actor_executor_dies(agent, slot, cause);
    cluster.slot_gone(agent, slot.slot, cause);
  }
  ASSERT_EQ(of_kind("ACTOR_ALIVE").size(), 2u);
  const auto restarted = of_kind("ACTOR_RESTARTING");
  ASSERT_EQ(restarted.size(), 1u);
  EXPECT_NE(restarted[0]["text"].get<std::string>().find("signal 9"), std::string::npos);
  const auto died = of_kind("ACTOR_DIED");
  ASSERT_EQ(died.size(), 1u);
  EXPECT_EQ(died[0]["severity"], "ERROR");
  EXPECT_EQ(died[0]["actor_id"], spec.actor.hex());
  EXPECT_EQ(list({{"kind", "ACTOR_*"}})["items"].size(), 4u);
  EXPECT_EQ(list({{"severity", "error"}})["items"].size(), 1u);
}

TEST_F(Events, PlannedActorEnd_IsNoError) {
  cluster.driver_starts_job(agent, 1);
  const auto spec = cluster.actor(1, 1);
  cluster.creates(agent, spec);
  const auto slot = cluster.actor_comes_alive(agent);
  cluster.from_driver(agent, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  EndCause cause;
  cause.kind = EndKind::retired;
  cluster.actor_executor_dies(agent, slot, cause);
  const auto died = of_kind("ACTOR_DIED");
  ASSERT_EQ(died.size(), 1u);
  EXPECT_EQ(died[0]["severity"], "INFO");
  EXPECT_TRUE(list({{"severity", "warning"}})["items"].empty());
}

TEST_F(Events, CountsRepeatedEvents) {
  const auto dropped = [&] {
    cluster.step(Noticed{"MESSAGE_DROPPED", "peer", "the frame is not of this protocol"});
  };
  for (int i = 0; i < 5; ++i) dropped();
  const auto seen = of_kind("MESSAGE_DROPPED");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["count"], 5);
  cluster.pass(120s);
  dropped();
  EXPECT_EQ(of_kind("MESSAGE_DROPPED").size(), 2u) << "it is long ago";
}

TEST_F(Events, KeepsFirstRejectionPerMinute) {
  for (const char* verb : {"stop", "drain", "submit", "token_create"})
    cluster.tool(verb, "", "", Role::observer);
  EXPECT_EQ(of_kind("REQUEST_REFUSED").size(), 1u);
  cluster.pass(120s);
  cluster.tool("stop", "", "", Role::observer);
  EXPECT_EQ(of_kind("REQUEST_REFUSED").size(), 2u);
}

TEST_F(Events, Follower_ReceivesEachEventOnce) {
  Json last = list();
  for (int number = 10; number < 13; ++number) {
    submit(number);
    last = list({{"after", last["next"]}, {"epoch", last["epoch"]}});
    ASSERT_EQ(last["items"].size(), 1u);
    EXPECT_EQ(last["items"][0]["job_id"], JobId::of(static_cast<unsigned>(number)).hex());
    EXPECT_EQ(last["lost"], 0);
  }
  last = list({{"after", last["next"]}, {"epoch", last["epoch"]}});
  EXPECT_TRUE(last["items"].empty());
}

TEST_F(Events, EventsInBatch_SurviveHeadRestart) {
  const auto id = submit(7);
  const Json before = list();
  cluster.restart_head();
  const Json after = list();
  ASSERT_GE(after["items"].size(), before["items"].size());
  for (std::size_t i = 0; i < before["items"].size(); ++i)
    EXPECT_EQ(after["items"][i], before["items"][i]);
  EXPECT_EQ(of_kind("HEAD_STARTED").size(), 2u);
  // A client that followed the previous head receives each new event once.
  const Json news = list({{"after", before["next"]}, {"epoch", before["epoch"]}});
  ASSERT_FALSE(news["items"].empty());
  EXPECT_EQ(news["items"][0]["kind"], "HEAD_STARTED");
}

TEST_F(Events, HeadRestarted_FollowerReceivesReusedNumbers) {
  cluster.tool("stop", "", "", Role::observer);  // no batch contains this event
  cluster.tool("drain", "", "ffff", Role::observer);
  const Json before = list();
  cluster.restart_head();
  EXPECT_TRUE(of_kind("REQUEST_REFUSED").empty()) << "an event outside a persisted batch is lost";
  const Json news = list({{"after", before["next"]}, {"epoch", before["epoch"]}});
  ASSERT_FALSE(news["items"].empty());
  EXPECT_EQ(news["items"][0]["kind"], "HEAD_STARTED")
      << "though its number is one that the follower has seen";
}

TEST_F(Events, EventFlood_KeepsWarningsAndReportsLoss) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(1));
  other.silent = true;
  cluster.pass(15s);
  const Json before = list();
  for (int number = 1; number <= 8300; ++number) {
    ASSERT_TRUE(cluster.tool("drain", std::to_string(number * 1000), agent.node.hex()).ok);
  }
  EXPECT_EQ(of_kind("NODE_DIED").size(), 1u);
  const Json after =
      list({{"after", before["next"]}, {"epoch", before["epoch"]}, {"severity", "DEBUG"}});
  EXPECT_GT(after["lost"].get<int>(), 0);
  EXPECT_FALSE(after["warnings"].empty());
  std::size_t rows = 0;
  for (const auto& [key, value] : cluster.journal()) rows += key.first == "events" ? 1 : 0;
  EXPECT_LE(rows, 1024u) << "the journal's part is bounded, too";
}

TEST_F(Events, NamesInvalidFilter) {
  for (const auto& [filters, named] :
       std::vector<std::pair<std::string, std::string>>{{"[]", "filters"},
                                                        {R"({"severity": "loud"})", "LOUD"},
                                                        {R"({"shade": "red"})", "shade"},
                                                        {R"({"after": -1})", "after"},
                                                        {R"({"id": "ab"})", "id"},
                                                        {R"({"kind": 3})", "kind"}}) {
    const auto answer = cluster.tool("list", "events", filters);
    EXPECT_FALSE(answer.ok) << filters;
    EXPECT_EQ(answer.code, ErrorCode::invalid_argument) << filters;
    EXPECT_NE(answer.text.find(named), std::string::npos) << answer.text;
  }
}

TEST_F(Events, RecordsEventsOfShell) {
  cluster.step(Noticed{"CONNECTION_REFUSED", "", "a key that is not admitted"});
  const auto refused = of_kind("CONNECTION_REFUSED");
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0]["text"], "a key that is not admitted");
}

TEST_F(Events, RecordsOomKillAsSeparateKind) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}}), 1);
  const auto slot = cluster.expect_start_slot(agent);
  const auto endpoint = cluster.executor_ready(agent, slot);
  EndCause cause;
  cause.kind = EndKind::out_of_memory;
  cause.text = "the node is at 97 %";
  cluster.from_agent(agent, SlotGenerationEnded{slot.slot, 0, endpoint.process, cause});
  const auto ended = of_kind("EXECUTOR_OOM_KILLED");
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0]["process_id"], endpoint.process.hex());
  EXPECT_NE(ended[0]["text"].get<std::string>().find("97 %"), std::string::npos);
}

}  // namespace
}  // namespace mobula::internal::head
