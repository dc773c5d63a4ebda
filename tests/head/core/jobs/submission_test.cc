// Tests submitted jobs in the head: placement, ends, retries, and history.
#include "head/core/jobs/submissions.h"
#include "head/core/view/event_json.h"

namespace mobula::internal::head {
namespace {

TEST_F(Submissions, ExplainsPendingJobWithReason) {
  const auto id = submit(1, {{"name", "big"}, {"request", {{"num_gpus", 8}}}});
  ASSERT_TRUE(reply.ok) << reply.text;
  EXPECT_TRUE(cluster.tool("explain", "", id.substr(0, 31)).ok) << "by its beginning";
  submit(2, {{"name", "full"}, {"submitted_ms", 5}, {"request", {{"num_cpus", 2}}}});
  const auto start = cluster.expect_start_slot(agent);
  submit(3, {{"name", "later"}, {"request", {{"num_cpus", 2}}}});
  for (const std::string& named : {id, std::string("big")}) {
    const auto answer = cluster.tool("explain", "", named);
    ASSERT_TRUE(answer.ok) << named << ": " << answer.text;
    const Json json = Json::parse(answer.json);
    EXPECT_EQ(json["feasible"], false) << named;
    EXPECT_EQ(json["subject"]["name"], "big");
    EXPECT_NE(json["reason"].get<std::string>().find("GPU"), std::string::npos) << json["reason"];
  }
  EXPECT_EQ(cluster.tool("explain", "", id.substr(0, 31)).code, ErrorCode::invalid_argument)
      << "several begin so";
  cluster.pass(1s);
  runs(agent, start);
  const Json running = Json::parse(cluster.tool("explain", "", "full").json);
  EXPECT_EQ(running["reason"], "it runs on node " + agent.node.hex());
  const auto nobody = cluster.tool("explain", "", "nobody");
  EXPECT_EQ(nobody.code, ErrorCode::not_found);
  EXPECT_NE(nobody.text.find("no submitted job has this id or name"), std::string::npos)
      << nobody.text;
  const Json jobs = Json::parse(cluster.tool("list", "jobs").json);
  for (const auto& each : jobs["items"]) {
    const bool waits = each["name"] != "full";
    EXPECT_EQ(each["started_ms"].is_null(), waits) << each;
    EXPECT_EQ(each["started_at"].is_null(), waits) << each;
    EXPECT_TRUE(each["ended_at"].is_null()) << each;
    EXPECT_EQ(each["submitted_at"], waits ? Json(nullptr) : Json("1970-01-01T00:00:00.005Z"))
        << each;
    if (!waits)
      EXPECT_EQ(each["started_at"], utc_text(each["started_ms"].get<std::int64_t>())) << each;
    EXPECT_EQ(each["reason"].get<std::string>().empty(), !waits) << each;
  }
}

TEST_F(Submissions, ListsCommandsAsJobsNotActors) {
  const auto id = submit(1, {{"name", "runs"}, {"request", {{"num_cpus", 2}}}});
  runs(agent, cluster.expect_start_slot(agent));
  const auto waiting = submit(2, {{"name", "waits"}, {"request", {{"num_cpus", 2}}}});
  EXPECT_TRUE(Json::parse(cluster.tool("list", "actors").json)["items"].empty());
  const Json status = Json::parse(cluster.tool("status").json);
  EXPECT_TRUE(status["actors"].empty()) << status["actors"];
  EXPECT_EQ(status["jobs"].dump(), R"({"PENDING":1,"RUNNING":1})");
  ASSERT_EQ(status["waiting"].size(), 1u) << status["waiting"];
  EXPECT_EQ(status["waiting"][0]["kind"], "jobs");
  EXPECT_EQ(status["waiting"][0]["id"], waiting) << status["waiting"];
}

TEST_F(Submissions, RejectsAgentAndNamesNeededRole) {
  const auto refused = cluster.tool("submit", "", "{}", Role::agent);
  EXPECT_EQ(refused.code, ErrorCode::permission_denied);
  EXPECT_NE(refused.text.find("token create --role driver"), std::string::npos) << refused.text;
}

TEST_F(Submissions, PlacesRunsAndRemembersCommand) {
  const auto id = submit(1, {{"name", "train"}, {"env", {{"A", "b"}}}, {"priority", 7}});
  ASSERT_TRUE(reply.ok) << reply.text;
  const auto start = cluster.expect_start_slot(agent);
  EXPECT_EQ(start.actor.entry.argv, (std::vector<std::string>{"/bin/work", "hard"}));
  EXPECT_EQ(start.demand_class.env.at("A"), "b");
  EXPECT_EQ(state(id), "PENDING");
  runs(agent, start);
  EXPECT_EQ(state(id), "RUNNING");
  EXPECT_EQ(job("train")["job_id"], id) << "by name";
  EXPECT_EQ(job(id.substr(0, 31) + "1")["node_id"], agent.node.hex());
  ends(agent, start, exited(0));
  EXPECT_EQ(state(id), "SUCCEEDED");
  EXPECT_EQ(job(id)["exit_code"], 0);
  EXPECT_TRUE(cluster.view().slots.empty());
  cluster.restart_head();
  EXPECT_EQ(state(id), "SUCCEEDED") << "it is in the journal";
  EXPECT_EQ(job(id)["priority"], 7);
  EXPECT_EQ(Json::parse(cluster.tool("status").json)["jobs"], (Json{{"SUCCEEDED", 1}}))
      << "and counted";
  const Json jobs = Json::parse(cluster.tool("list", "jobs").json)["items"];
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0]["job_id"], id);
  EXPECT_EQ(jobs[0]["name"], "train");
  EXPECT_EQ(jobs[0]["state"], "SUCCEEDED");
  EXPECT_EQ(jobs[0]["priority"], 7);
}

TEST_F(Submissions, RejectsDeeplyNestedOrOversizedJson) {
  const auto refusal = [&](const std::string& verb, const std::string& kind,
                           const std::string& text) {
    const auto answer = cluster.tool(verb, kind, text);
    EXPECT_FALSE(answer.ok);
    return answer.text;
  };
  const std::string deep = R"({"argv":["x"],"request":{"a":)" + std::string(200'000, '[') +
                           std::string(200'000, ']') + "}}";
  EXPECT_NE(refusal("submit", "", deep).find("nested over 64 times"), std::string::npos);
  EXPECT_NE(refusal("explain", "", std::string(65, '[')).find("nested over 64 times"),
            std::string::npos);
  std::string wide = "{";
  for (int i = 0; i < 20'000; ++i) wide += "\"a" + std::to_string(i) + "\":1,";
  EXPECT_NE(refusal("submit", "", wide + "\"b\":1}").find("over 16384 members"), std::string::npos);
  EXPECT_NE(refusal("list", "events", "{" + std::string(5000, ' ') + "}").find("over 4096 bytes"),
            std::string::npos);
  // Brackets and commas inside strings do not count.
  (void)submit(2,
               {{"argv", {"/bin/echo", std::string(100, '['), "\"" + std::string(20'000, ',')}}});
  EXPECT_TRUE(reply.ok) << reply.text;
}

TEST_F(Submissions, RepeatedSubmission_IsSameJob) {
  submit(1);
  submit(1);
  EXPECT_TRUE(reply.ok);
  cluster.expect_start_slot(agent);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Submissions, AttemptFailed_FinalUnlessRetriesRemain) {
  const auto once = submit(1);
  const auto first = cluster.expect_start_slot(agent);
  runs(agent, first);
  ends(agent, first, exited(3));
  EXPECT_EQ(state(once), "FAILED");
  EXPECT_EQ(job(once)["exit_code"], 3);
  cluster.expect_no_start_slot(agent);

  const auto twice = submit(2, {{"retries", 1}});
  for (const int attempt : {1, 2}) {
    const auto start = cluster.expect_start_slot(agent);
    runs(agent, start);
    EXPECT_EQ(job(twice)["attempts"], attempt);
    EndCause signalled;
    signalled.kind = EndKind::signalled;
    signalled.signal = 11;
    ends(agent, start, signalled);
  }
  EXPECT_EQ(state(twice), "FAILED");
  EXPECT_EQ(job(twice)["signal"], 11);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Submissions, StoppedWhilePending_NeverRuns) {
  const auto id = submit(1, {{"request", {{"num_cpus", 64}}}});
  cluster.expect_no_start_slot(agent);
  EXPECT_NE(job(id)["reason"].get<std::string>().find("Infeasible"), std::string::npos) << job(id);
  EXPECT_TRUE(cluster.tool("job_stop", "", id).ok);
  EXPECT_EQ(state(id), "STOPPED");
  TestAgent& large = cluster.node_joins(2, SmallCluster::shape(64));
  cluster.expect_no_start_slot(large);
}

TEST_F(Submissions, StoppedRunning_GetsGraceAndNoRetry) {
  const auto id = submit(1, {{"retries", 5}});
  const auto start = cluster.expect_start_slot(agent);
  runs(agent, start);
  EXPECT_TRUE(cluster.tool("job_stop", "", id).ok);
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_TRUE(stops[0].graceful);
  EXPECT_EQ(state(id), "RUNNING");
  ends(agent, start, exited(0));
  EXPECT_EQ(state(id), "STOPPED");
  cluster.expect_no_start_slot(agent);
}

TEST_F(Submissions, StoppedThenHeadAndNodeLost_DoesNotRunAgain) {
  const auto id = submit(1, {{"retries", 5}});
  const auto start = cluster.expect_start_slot(agent);
  runs(agent, start);
  EXPECT_TRUE(cluster.tool("job_stop", "", id).ok);
  cluster.restart_head();
  cluster.node_joins(2, SmallCluster::shape(2));
  cluster.pass(std::chrono::seconds(60));
  EXPECT_EQ(state(id), "STOPPED");
}

TEST_F(Submissions, JobGrace_PrecedesDrainDeadline) {
  const auto id = submit(1, {{"grace_ms", 8'000}, {"request", {{"num_cpus", 1}}}});
  const auto start = cluster.expect_start_slot(agent);
  runs(agent, start);
  const auto reply = cluster.tool("drain", "20000", agent.node.hex());
  EXPECT_NE(reply.json.find("asked to end in 12 s"), std::string::npos) << reply.json;
  cluster.pass(11s);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty()) << "it may still end by itself";
  cluster.pass(2s);
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_TRUE(stops[0].graceful);
  EXPECT_EQ(state(id), "RUNNING");
  EndCause cause;
  cause.kind = EndKind::signalled;
  cause.signal = 15;
  ends(agent, start, cause);
  EXPECT_EQ(state(id), "FAILED");
  EXPECT_EQ(job(id)["signal"], 15);
  EXPECT_NE(job(id).value("reason", "").find("is drained"), std::string::npos) << job(id).dump();
}

TEST_F(Submissions, GraceBeyondDeadline_StartsAtOnce) {
  const auto id = submit(1, {{"grace_ms", 60'000}, {"request", {{"num_cpus", 1}}}});
  runs(agent, cluster.expect_start_slot(agent));
  const auto reply = cluster.tool("drain", "5000", agent.node.hex());
  EXPECT_NE(reply.json.find("asked to end now"), std::string::npos) << reply.json;
  const auto first = cluster.take<StopSlot>(agent);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(first[0].graceful);
  cluster.pass(6s);
  const auto second = cluster.take<StopSlot>(agent);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_FALSE(second[0].graceful);
  EXPECT_EQ(state(id), "FAILED");
}

TEST_F(Submissions, DeviceRequest_RequestsNoCpu) {
  auto& with_gpus = cluster.node_joins(3, SmallCluster::shape(0, 2));
  submit(1, {{"request", {{"num_gpus", 1}}}});
  const auto alone = cluster.expect_start_slot(with_gpus);
  EXPECT_EQ(alone.demand_class.request.resources.get(resource::cpu), Quantity())
      << "nor a node that has one";
  submit(2, {{"request", {{"num_gpus", 1}, {"num_cpus", 1}}}});
  cluster.expect_no_start_slot(with_gpus);
  submit(3);
  EXPECT_EQ(
      cluster.expect_start_slot(agent).demand_class.request.required_totals.get(resource::cpu),
      Quantity::whole(1))
      << "an empty request needs a node with a CPU";
}

TEST_F(Submissions, PrefersNameToIdPrefix) {
  const auto id = submit(1);
  const auto named = submit(2, {{"name", id.substr(0, 8)}});
  EXPECT_EQ(job(id.substr(0, 8))["job_id"], named);
  EXPECT_EQ(job(id)["job_id"], id);
}

TEST_F(Submissions, NodeDied_JobIsLostOrRetried) {
  const auto lost = submit(1, {{"request", {{"num_cpus", 1}}}});
  const auto first = cluster.expect_start_slot(agent);
  const auto moved = submit(2, {{"request", {{"num_cpus", 1}}}, {"retries", 1}});
  const auto second = cluster.expect_start_slot(agent);
  runs(agent, first);
  runs(agent, second);
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(2));
  agent.silent = true;
  cluster.pass(std::chrono::seconds(30));
  EXPECT_EQ(state(lost), "LOST");
  EXPECT_EQ(Json::parse(cluster.tool("explain", "", lost).json)["reason"].get<std::string>().substr(
                0, 10),
            "it is LOST");
  const auto again = cluster.expect_start_slot(other);
  EXPECT_EQ(again.first_generation, 1u);
  runs(other, again);
  EXPECT_EQ(state(moved), "RUNNING");
  EXPECT_EQ(job(moved)["attempts"], 2);
}

TEST_F(Submissions, HeadRestarted_RunningJobContinues) {
  const auto id = submit(1);
  const auto start = cluster.expect_start_slot(agent);
  runs(agent, start);
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.from_agent(agent, ActorConstructed{start.actor.actor, start.slot, 0, {}});
  EXPECT_EQ(state(id), "RUNNING");
  ends(agent, start, exited(4));
  EXPECT_EQ(state(id), "FAILED");
  EXPECT_EQ(job(id)["exit_code"], 4);
}

TEST_F(Submissions, EndedWithoutHead_IsReportedAfterwards) {
  const auto id = submit(1);
  const auto start = cluster.expect_start_slot(agent);
  runs(agent, start);
  cluster.restart_head();
  agent.facts.slots.clear();
  agent.facts.ended_entries = {{start.actor.actor, start.slot, 0, exited(4)}};
  cluster.register_agent(agent);
  EXPECT_EQ(state(id), "FAILED");
  EXPECT_EQ(job(id)["exit_code"], 4);
  cluster.pass(std::chrono::seconds(60));
  cluster.expect_no_start_slot(agent);
}

TEST_F(Submissions, HeadRestarted_UnreportedJobIsLost) {
  const auto id = submit(1);
  runs(agent, cluster.expect_start_slot(agent));
  cluster.restart_head();
  agent.facts.slots.clear();
  cluster.register_agent(agent);
  cluster.pass(std::chrono::seconds(60));
  EXPECT_EQ(state(id), "LOST");
  cluster.expect_no_start_slot(agent);
}

TEST_F(Submissions, ReadsOutputFromNodeThatRanIt) {
  const auto id = submit(1);
  const auto start = cluster.expect_start_slot(agent);
  runs(agent, start);
  cluster.replies.clear();
  ToolRequest question;
  question.request = 77;
  question.verb = "job_log";
  question.kind = "5";
  question.argument = id;
  cluster.step(ReceivedFromTool{900, Principal{Role::observer, "looks", {}}, question});
  const auto spec = cluster.take<ReadJobLogRequest>(agent);
  ASSERT_EQ(spec.size(), 1u);
  EXPECT_EQ(spec[0].from, 5);
  ReadJobLogReply part;
  part.request = spec[0].request;
  part.from = 5;
  part.end = 7;
  const Bytes printed(2, std::byte{'x'});
  part.bytes = Payload(printed);
  cluster.from_agent(agent, part);
  ASSERT_FALSE(cluster.replies.empty());
  EXPECT_EQ(cluster.replies.back().request, 77u);
  EXPECT_EQ(cluster.replies.back().bytes, part.bytes);
  EXPECT_EQ(Json::parse(cluster.replies.back().json)["end"], 7);
  cluster.from_agent(agent, part);  // repeated: the query is complete
}

TEST_F(Submissions, NameUsedByTwoKeys_RequesterGetsItsJob) {
  const auto send_query = [&](const std::string& user, const std::string& verb,
                              const std::string& kind, const std::string& argument) {
    ToolRequest request;
    request.request = 1;
    request.verb = verb;
    request.kind = kind;
    request.argument = argument;
    cluster.replies.clear();
    cluster.step(ReceivedFromTool{99, Principal{Role::operator_, user, {}}, request, user});
    return cluster.replies.front();
  };
  const auto submits = [&](int number, const std::string& user) {
    const Json job = {{"job_id", JobId::of(static_cast<unsigned>(number)).hex()},
                      {"argv", {"/bin/work"}},
                      {"name", "train"}};
    EXPECT_TRUE(send_query(user, "submit", "", job.dump()).ok);
  };
  submits(1, "token:a");
  EXPECT_TRUE(send_query("token:c", "get", "submission", "train").ok)
      << "one key alone has this name";
  submits(2, "token:b");
  for (const auto& [user, number] : {std::pair("token:a", 1), std::pair("token:b", 2)}) {
    const auto answer = send_query(user, "get", "submission", "train");
    EXPECT_EQ(Json::parse(answer.json)["job_id"], JobId::of(static_cast<unsigned>(number)).hex());
  }
  const auto of_others = send_query("token:c", "get", "submission", "train");
  EXPECT_EQ(of_others.code, ErrorCode::invalid_argument);
  EXPECT_NE(of_others.text.find("2 keys"), std::string::npos) << of_others.text;
}

TEST_F(Submissions, NamesInvalidMember) {
  const std::vector<std::pair<Json, std::string>> bad{
      {{{"argv", Json::array()}}, "argv"},
      {{{"argv", {""}}}, "argv"},
      {{{"argv", {std::string("a\0b", 3)}}}, "argv"},
      {{{"name", "two\nlines"}}, "name"},
      {{{"name", std::string(257, 'n')}}, "name"},
      {{{"env", {{"A=B", "c"}}}}, "env"},
      {{{"env", {{"LARGE", std::string(100'000, 'x')}}}}, "env"},
      {{{"env", {{"CUDA_VISIBLE_DEVICES", "0"}}}}, "CUDA_VISIBLE_DEVICES"},
      {{{"name", "cod\xe2\x80\xaeslx.exe"}}, "direction of text"},
      {{{"workdir", "here"}}, "workdir"},
      {{{"retries", -2}}, "retries"},
      {{{"retries", 1.5}}, "retries"},
      {{{"priority", 1001}}, "priority"},
      {{{"time_limit_ms", -1}}, "time_limit_ms"},
      {{{"labels", {{"a b", "c"}}}}, "submit: labels: a label"},
      {{{"request", {{"num_cpus", -1}}}}, "num_cpus"},
      {{{"request", {{"bundles", Json::array({Json::object()})}}}}, "bundle"},
      {{{"job_id", "12"}}, "job_id"},
      {{{"unknown", 1}}, "unknown"}};
  for (const auto& [more, member] : bad) {
    submit(1, more);
    EXPECT_FALSE(reply.ok) << more;
    EXPECT_EQ(reply.code, ErrorCode::invalid_argument) << more;
    EXPECT_NE(reply.text.find(member), std::string::npos) << reply.text;
  }
  EXPECT_FALSE(cluster.tool("submit", "", "no json").ok);
  EXPECT_EQ(cluster.tool("submit", "", "{}", Role::observer).code, ErrorCode::permission_denied);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Submissions, ForgetsOldestEndedJobs) {
  HeadOptions options;
  options.max_ended_kept = 2;
  SmallCluster few(options);
  for (unsigned number = 1; number <= 4; ++number) {
    const Json spec = {{"job_id", JobId::of(number).hex()}, {"argv", {"x"}}};
    EXPECT_TRUE(few.tool("submit", "", spec.dump()).ok);
    EXPECT_TRUE(few.tool("job_stop", "", JobId::of(number).hex()).ok);
  }
  const auto list = Json::parse(few.tool("list", "submissions").json);
  ASSERT_EQ(list["items"].size(), 2u);
  EXPECT_EQ(list["items"][1]["job_id"], JobId::of(4u).hex());
  std::size_t rows = 0;
  for (const auto& [key, value] : few.journal()) rows += key.first == "submissions" ? 1 : 0;
  EXPECT_EQ(rows, 2u);
}

}  // namespace
}  // namespace mobula::internal::head
