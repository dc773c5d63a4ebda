// Tests queries for single tasks, from a tool to the owners of tasks and back.
#include <nlohmann/json.hpp>

#include "head/core/jobs/failed_tasks.h"
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class TaskQuery : public testing::Test {
 protected:
  explicit TaskQuery(HeadOptions options = {}) : cluster(std::move(options)) {
    cluster.driver_starts_job(agent, 1);
    cluster.driver_starts_job(agent, 2);
  }

  void send_query(const std::string& verb, const std::string& kind,
                  const std::string& argument = "") {
    ToolRequest request;
    request.request = 9;
    request.verb = verb;
    request.kind = kind;
    request.argument = argument;
    cluster.replies.clear();
    cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
  }
  TasksRequest query(ProcessId owner) {
    const auto questions = cluster.received<TasksRequest>(agent, owner);
    EXPECT_EQ(questions.size(), 1u) << owner.hex();
    return questions.empty() ? TasksRequest{} : questions[0];
  }
  void answers(int job, std::uint64_t request, std::vector<TaskFact> facts,
               std::uint64_t left_out = 0) {
    TasksReply answer;
    answer.request = request;
    answer.tasks = std::move(facts);
    answer.left_out = left_out;
    for (const auto& each : answer.tasks) answer.counts.push_back({each.name, each.phase, 1});
    cluster.from_driver(agent, job, answer);
  }
  ToolReply reply() {
    EXPECT_EQ(cluster.replies.size(), 1u);
    return cluster.replies.empty() ? ToolReply{} : cluster.replies[0];
  }
  Json document() {
    const ToolReply got = reply();
    EXPECT_TRUE(got.ok) << got.text;
    return Json::parse(got.json, nullptr, false);
  }

  static TaskFact fact(std::uint64_t number, TaskPhase phase) {
    TaskFact fact;
    fact.task = TaskId::of(number);
    fact.name = "square";
    fact.phase = phase;
    fact.since = 1500ms;
    return fact;
  }
  static std::string id(std::uint64_t number) { return TaskId::of(number).hex(); }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  const ProcessId one = SmallCluster::driver(1);
  const ProcessId two = SmallCluster::driver(2);
};

TEST_F(TaskQuery, CollectsTasksFromAllOwners) {
  send_query("list", "tasks");
  EXPECT_TRUE(cluster.replies.empty()) << "no owner has replied yet";
  const TasksRequest first = query(one);
  const TasksRequest second = query(two);
  EXPECT_EQ(first.limit, 1000u);
  answers(1, first.request, {fact(0xa1, TaskPhase::runs)});
  EXPECT_TRUE(cluster.replies.empty());
  TaskFact failed = fact(0xa2, TaskPhase::failed);
  failed.run_time = 2500us;
  answers(2, second.request, {failed}, 5);
  EXPECT_EQ(reply().request, 9u);
  const Json list = document();
  EXPECT_EQ(list["kind"], "TaskList");
  ASSERT_EQ(list["items"].size(), 2u);
  EXPECT_EQ(list["items"][0]["task_id"], id(0xa1));
  EXPECT_EQ(list["items"][0]["state"], "RUNNING");
  EXPECT_EQ(list["items"][0]["since_ms"], 1500);
  EXPECT_TRUE(list["items"][0]["since_at"].get<std::string>().ends_with("Z")) << list["items"][0];
  EXPECT_EQ(list["items"][0]["duration_us"], nullptr);
  EXPECT_EQ(list["items"][1]["state"], "FAILED");
  EXPECT_EQ(list["items"][1]["duration_us"], 2500);
  EXPECT_EQ(list["items"][1]["job_id"], JobId::of(2).hex());
  EXPECT_EQ(list["counts"].size(), 2u);
  EXPECT_NE(list["warnings"].dump().find("5 more"), std::string::npos) << list["warnings"];
}

TEST_F(TaskQuery, CountsQuery_RequestsNoRows) {
  send_query("list", "task-counts");
  const TasksRequest question = query(one);
  EXPECT_EQ(question.limit, 0u);
  EXPECT_EQ(query(two), question);
  for (const int job : {1, 2}) {
    TasksReply answer;
    answer.request = question.request;
    answer.counts = {{"square", TaskPhase::runs, 2}, {"square", TaskPhase::finished, 100'000}};
    answer.left_out = 100'002;
    cluster.from_driver(agent, job, answer);
  }
  const Json counted = document();
  EXPECT_EQ(counted["kind"], "TaskCounts");
  EXPECT_FALSE(counted.contains("items"));
  EXPECT_EQ(counted["counts"], Json::parse(R"([{"name": "square", "state": "RUNNING", "count": 4},
                                               {"name": "square", "state": "FINISHED", "count": 200000}])"));
  EXPECT_TRUE(counted["warnings"].empty()) << counted["warnings"];

  send_query("list", "task-counts", R"({"state": "RUNNING"})");
  EXPECT_EQ(query(one).phases, std::vector{TaskPhase::runs});
}

TEST_F(TaskQuery, ActiveOwners_SkipsProcessesWithoutTasks) {
  const std::string active = R"({"owners": "active"})";
  const auto reply_with = [&](int job, std::vector<TaskCount> counts) {
    TasksReply answer;
    answer.request = query(SmallCluster::driver(job)).request;
    answer.counts = std::move(counts);
    cluster.from_driver(agent, job, answer);
  };
  const auto count_of_squares = [&] { return document()["counts"][0]["count"]; };
  // A restricted count does not show that a process owns nothing.
  send_query("list", "task-counts", R"({"state": "RUNNING"})");
  reply_with(1, {});
  reply_with(2, {});
  send_query("list", "task-counts", active);
  reply_with(1, {});
  reply_with(2, {{"square", TaskPhase::runs, 2}});
  EXPECT_EQ(count_of_squares(), 2);

  send_query("list", "task-counts", active);
  EXPECT_TRUE(cluster.received<TasksRequest>(agent, one).empty());
  reply_with(2, {{"square", TaskPhase::runs, 3}});
  EXPECT_EQ(count_of_squares(), 3);

  // A query without the filter queries all processes.
  send_query("list", "task-counts");
  reply_with(1, {});
  reply_with(2, {{"square", TaskPhase::runs, 3}});

  // A message other than a reply ends the state.
  FindActor find;
  find.name = "absent";
  cluster.from_driver(agent, 1, find);
  send_query("list", "task-counts", active);
  reply_with(1, {});
  reply_with(2, {});

  // Now both are idle, so the reply needs no query.
  send_query("list", "task-counts", active);
  EXPECT_TRUE(document()["counts"].empty());

  cluster.now = cluster.now + 31s;
  send_query("list", "task-counts", active);
  reply_with(1, {});
  reply_with(2, {});
  EXPECT_TRUE(document()["counts"].empty());

  send_query("list", "task-counts", R"({"owners": "all"})");
  EXPECT_FALSE(reply().ok);
}

TEST_F(TaskQuery, EscapesForeignNames) {
  send_query("list", "tasks");
  TaskFact odd = fact(0xa1, TaskPhase::runs);
  odd.name = "a \"b\" \\ \n \xff";
  odd.reason = "\x01";
  answers(1, query(one).request, {odd});
  answers(2, query(two).request, {});
  EXPECT_EQ(document()["items"][0]["name"], "a \"b\" \\ \n \xef\xbf\xbd");
}

TEST_F(TaskQuery, SendsFiltersToOwnersAndFiltersOwners) {
  send_query("list", "tasks",
             R"({"state": "RUNNING", "name": "square", "job_id": ")" + JobId::of(2).hex() + "\"}");
  EXPECT_TRUE(cluster.received<TasksRequest>(agent, one).empty()) << "of another job";
  const TasksRequest question = query(two);
  EXPECT_EQ(question.name, "square");
  EXPECT_EQ(question.phases, std::vector{TaskPhase::runs});
  answers(2, question.request, {});
  EXPECT_TRUE(document()["items"].empty());

  send_query("list", "tasks", R"({"state": "running"})");
  EXPECT_EQ(reply().code, ErrorCode::invalid_argument);
  EXPECT_NE(reply().text.find("PENDING_ARGS_AVAIL"), std::string::npos) << reply().text;
}

TEST_F(TaskQuery, LimitsRowsToRequestedNumber) {
  send_query("list", "tasks", R"({"limit": "3"})");
  const TasksRequest first = query(one);
  EXPECT_EQ(first.limit, 3u);
  answers(1, first.request, {fact(0xa1, TaskPhase::runs), fact(0xa2, TaskPhase::runs)});
  answers(2, query(two).request, {fact(0xb1, TaskPhase::runs), fact(0xb2, TaskPhase::runs)});
  const Json list = document();
  EXPECT_EQ(list["items"].size(), 3u);
  ASSERT_EQ(list["warnings"].size(), 1u);
  EXPECT_NE(list["warnings"][0].get<std::string>().find(
                "and 1 more that are not listed: the limit is 3 rows"),
            std::string::npos)
      << list["warnings"][0];

  send_query("list", "tasks", R"({"limit": "5000"})");
  EXPECT_EQ(query(one).limit, 1000u) << "of one owner";

  for (const char* wrong :
       {R"({"limit": "-1"})", R"({"limit": "3x"})", R"({"limit": ""})", R"({"limit": 3})"}) {
    send_query("list", "tasks", wrong);
    EXPECT_EQ(reply().code, ErrorCode::invalid_argument) << wrong;
  }
}

TEST_F(TaskQuery, NamesSilentOwners) {
  send_query("list", "tasks");
  answers(1, query(one).request, {fact(0xa1, TaskPhase::runs)});
  cluster.pass(1s);
  EXPECT_TRUE(cluster.replies.empty());
  cluster.pass(2s);
  const Json list = document();
  EXPECT_EQ(list["items"].size(), 1u);
  ASSERT_EQ(list["warnings"].size(), 1u);
  EXPECT_NE(list["warnings"][0].get<std::string>().find(two.brief()), std::string::npos);

  send_query("get", "task", id(0xb));
  answers(1, query(one).request, {});
  cluster.pass(3s);
  EXPECT_EQ(reply().code, ErrorCode::timed_out);
  EXPECT_NE(reply().text.find(two.brief()), std::string::npos) << reply().text;
}

TEST_F(TaskQuery, OwnerDied_ListDoesNotWait) {
  send_query("list", "tasks");
  answers(1, query(one).request, {fact(0xa1, TaskPhase::runs)});
  cluster.driver_dies(agent, 2);
  EXPECT_EQ(document()["items"].size(), 1u);
}

TEST_F(TaskQuery, OneTask_IsAnsweredByItsOwnerAlone) {
  send_query("get", "task", id(0xa2));
  EXPECT_EQ(query(one).id, id(0xa2));
  answers(2, query(two).request, {fact(0xa2, TaskPhase::runs)});
  const Json task = document();  // the reply of the other owner is not needed
  EXPECT_EQ(task["kind"], "Task");
  EXPECT_EQ(task["task_id"], id(0xa2));

  send_query("get", "task", id(0xa3));
  answers(1, query(one).request, {});
  answers(2, query(two).request, {});
  EXPECT_EQ(reply().code, ErrorCode::not_found);

  send_query("get", "task", "00000000");
  answers(1, query(one).request, {fact(0xa1, TaskPhase::runs)});
  answers(2, query(two).request, {fact(0xa2, TaskPhase::runs)});
  EXPECT_EQ(reply().code, ErrorCode::invalid_argument) << "both begin like that";

  send_query("get", "task", "no id");
  EXPECT_EQ(reply().code, ErrorCode::invalid_argument);
}

TEST_F(TaskQuery, IgnoresUnrequestedReplies) {
  send_query("list", "tasks");
  const auto request = query(one).request;
  answers(1, request + 1, {fact(1, TaskPhase::runs)});
  answers(1, request, {});
  answers(1, request, {fact(2, TaskPhase::runs)});  // repeated reply
  EXPECT_TRUE(cluster.replies.empty());
  answers(2, request, {});
  EXPECT_TRUE(document()["items"].empty());
}

TEST_F(TaskQuery, ExplainsWaitingTaskWithSchedulerReasons) {
  auto demand = cluster.demand_class(1, 5, {{"CPU", Quantity::whole(64)}});
  cluster.wants(agent, demand, 1);
  TaskFact waiting = fact(0xa1, TaskPhase::waits_for_slot);
  waiting.demand_class = demand.id;
  waiting.ahead = 3;
  send_query("explain", "", id(0xa1));
  answers(1, query(one).request, {waiting});
  const Json json = document();
  EXPECT_EQ(json["kind"], "Explanation");
  EXPECT_EQ(json["subject"]["task_id"], id(0xa1));
  EXPECT_EQ(json["feasible"], false);
  ASSERT_EQ(json["items"].size(), 1u);
  EXPECT_EQ(json["items"][0]["node_id"], agent.node.hex());
  const auto reason = json["reason"].get<std::string>();
  EXPECT_NE(reason.find("waits for a slot"), std::string::npos) << reason;
  EXPECT_NE(reason.find("3 before it"), std::string::npos) << reason;

  send_query("explain", "", demand.id.hex());
  EXPECT_EQ(document()["subject"]["class_id"], demand.id.hex()) << "a class is the head's own";
}

TEST_F(TaskQuery, ExplainOfUnknownId_IsNotFound) {
  send_query("explain", "", id(99));
  answers(1, query(one).request, {});
  answers(2, query(two).request, {});
  EXPECT_EQ(reply().code, ErrorCode::not_found);
  EXPECT_NE(reply().text.find("no actor"), std::string::npos) << reply().text;
}

TEST_F(TaskQuery, Explain_NamesMissingArgument) {
  TaskFact waiting = fact(0xa1, TaskPhase::waits_for_arguments);
  waiting.missing = 1;
  waiting.arguments.push_back({ObjectId::of(0xbb), TaskId::of(0xcc), "make", one, agent.node});
  send_query("explain", "", id(0xa1));
  answers(1, query(one).request, {waiting});
  const Json json = document();
  const auto reason = json["reason"].get<std::string>();
  EXPECT_NE(reason.find(id(0xcc)), std::string::npos) << reason;
  EXPECT_NE(reason.find("make"), std::string::npos) << reason;
  EXPECT_EQ(json["subject"]["waits_for"][0]["object_id"], ObjectId::of(0xbb).hex());
}

TEST_F(TaskQuery, ExplainOfBackoff_NamesReason) {
  TaskFact pauses = fact(0xa1, TaskPhase::waits_for_arguments);
  pauses.reason = "it was ended for lack of memory";
  send_query("explain", "", id(0xa1));
  answers(1, query(one).request, {pauses});
  const auto reason = document()["reason"].get<std::string>();
  EXPECT_NE(reason.find("lack of memory"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("arguments"), std::string::npos) << reason;
}

TEST_F(TaskQuery, ForwardsErrorsUndecoded) {
  TaskFact failed = fact(0xa1, TaskPhase::failed);
  failed.error = Payload(Bytes{std::byte{1}, std::byte{2}});
  send_query("explain", "", id(0xa1));
  answers(1, query(one).request, {failed});
  ASSERT_EQ(reply().errors.size(), 1u);
  EXPECT_EQ(reply().errors[0].task, failed.task);
  EXPECT_EQ(reply().errors[0].error, failed.error);
}

TEST_F(TaskQuery, ProcessQuery_IsAnsweredLater) {
  cluster.from_driver(agent, 1, ReadState{5, "tasks", ""});
  EXPECT_TRUE(cluster.received<ReadStateReply>(agent, one).empty());
  answers(1, query(one).request, {});
  answers(2, query(two).request, {fact(0xa2, TaskPhase::runs)});
  const auto read = cluster.received<ReadStateReply>(agent, one);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].request, 5u);
  EXPECT_NE(read[0].json.find(id(0xa2)), std::string::npos);
}

TEST_F(TaskQuery, RejectsTooManyOpenQueries) {
  for (int i = 0; i < 64; ++i) send_query("list", "tasks");
  EXPECT_TRUE(cluster.replies.empty());
  send_query("list", "tasks");
  EXPECT_EQ(reply().code, ErrorCode::resource_exhausted);
}

TEST_F(TaskQuery, ListsFailuresAfterTheOwnerEnded) {
  TaskFact failed = fact(0xa1, TaskPhase::failed);
  failed.node = NodeId::of(1);
  failed.attempt = 2;
  failed.error = Payload(std::vector<std::byte>(8));
  answers(1, 0, {failed, fact(0xa2, TaskPhase::runs)});
  send_query("list", "tasks", R"({"state": "FAILED"})");
  answers(1, query(one).request, {});
  answers(2, query(two).request, {});
  EXPECT_EQ(document()["items"].size(), 0u) << "a living owner answers for itself";
  cluster.process_ends(agent, one);
  send_query("list", "tasks", R"({"state": "FAILED"})");
  answers(2, query(two).request, {});
  const Json list = document();
  ASSERT_EQ(list["items"].size(), 1u) << list;
  EXPECT_EQ(list["items"][0]["task_id"], id(0xa1));
  EXPECT_EQ(list["items"][0]["state"], "FAILED");
  EXPECT_EQ(list["items"][0]["node_id"], NodeId::of(1).hex());
  EXPECT_EQ(list["items"][0]["attempt"], 3);
  ASSERT_EQ(reply().errors.size(), 1u);
  send_query("get", "task", id(0xa1));
  answers(2, query(two).request, {});
  EXPECT_EQ(document()["state"], "FAILED");
}

TEST_F(TaskQuery, RemovesFailuresAfterAnHour) {
  answers(1, 0, {fact(0xa1, TaskPhase::failed)});
  cluster.process_ends(agent, one);
  cluster.pass(FailedTasks::retention);
  send_query("list", "tasks");
  answers(2, query(two).request, {});
  EXPECT_EQ(document()["items"].size(), 0u);
}

TEST_F(TaskQuery, KeepsABoundedNumberOfFailures) {
  std::vector<TaskFact> many;
  for (std::uint64_t i = 1; i <= 150; ++i) many.push_back(fact(i, TaskPhase::failed));
  answers(1, 0, many);
  cluster.process_ends(agent, one);
  send_query("list", "tasks");
  answers(2, query(two).request, {});
  EXPECT_EQ(document()["items"].size(), FailedTasks::max_tasks_per_job);
}

}  // namespace
}  // namespace mobula::internal::head
