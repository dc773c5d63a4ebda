// Replies of an owner about single tasks: their state, the reason why they wait, and how they
// ended.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class TaskQueries : public SmallClient {
 protected:
  TasksReply query(TasksRequest question) {
    question.request = 77;
    if (question.limit == 0) question.limit = 100;
    head(question);
    const auto answer = to_head<TasksReply>();
    EXPECT_EQ(answer.size(), 1u);
    return answer.empty() ? TasksReply{} : answer[0];
  }
  TasksReply query_all() { return query(TasksRequest{}); }
  TaskFact fact_of(const std::string& id) {
    TasksRequest question;
    question.id = id;
    const auto answer = query(question);
    EXPECT_EQ(answer.tasks.size(), 1u) << id;
    return answer.tasks.empty() ? TaskFact{} : answer.tasks[0];
  }
  TaskFact fact_of(TaskId task) { return fact_of(task.hex()); }
  std::uint64_t count(const TasksReply& answer, const std::string& name, TaskPhase phase) {
    for (const auto& each : answer.counts) {
      if (each.name == name && each.phase == phase) return each.count;
    }
    return 0;
  }
};

TEST_F(TaskQueries, WaitingTask_NamesTaskThatMakesArgument) {
  const TaskId maker = submit();
  SubmitTask given = task(7);
  given.call.arguments.edit().push_back(by_ref({result(maker), node(), ProcessId::of(1), {}}));
  const TaskId waiting = submit(given);
  now_ = now_ + 3s;
  const TaskFact fact = fact_of(waiting);
  EXPECT_EQ(fact.task, waiting);
  EXPECT_EQ(fact.name, "task 7");
  EXPECT_EQ(fact.phase, TaskPhase::waits_for_arguments);
  EXPECT_EQ(fact.since, Duration(3s));
  EXPECT_EQ(fact.missing, 1u);
  ASSERT_EQ(fact.arguments.size(), 1u);
  EXPECT_EQ(fact.arguments[0].object, result(maker));
  EXPECT_EQ(fact.arguments[0].task, maker);
  EXPECT_EQ(fact.arguments[0].task_name, "task 101");
}

TEST_F(TaskQueries, ReportsSubmitSendAndEndTimes) {
  const Time submitted = now_;
  const TaskId task = submit();
  now_ = now_ + 2s;
  slot(1, 30);
  now_ = now_ + 1s;
  reply_value(30, "done");
  ASSERT_EQ(core_.owned_calls().size(), 1u);
  const OwnedCall& call = core_.owned_calls()[0];
  EXPECT_EQ(call.task, task);
  EXPECT_EQ(call.submitted, submitted);
  EXPECT_EQ(call.sent, submitted + 2s);
  EXPECT_EQ(call.ended, submitted + 3s);
  EXPECT_EQ(call.by.executor, ProcessId::of(30));
}

TEST_F(TaskQueries, NamesOwnerOfBorrowedArgument) {
  SubmitTask given = task(7);
  given.call.arguments.edit().push_back(
      by_ref({ObjectId::of(900), NodeId::of(4), ProcessId::of(40), {}}));
  const TaskFact fact = fact_of(submit(given));
  EXPECT_EQ(fact.phase, TaskPhase::waits_for_arguments);
  ASSERT_EQ(fact.arguments.size(), 1u);
  EXPECT_TRUE(fact.arguments[0].task.empty());
  EXPECT_EQ(fact.arguments[0].owner, ProcessId::of(40));
  EXPECT_EQ(fact.arguments[0].home, NodeId::of(4));
}

TEST_F(TaskQueries, QueuedTask_ReportsPositionAndReason) {
  submit();
  submit();
  const TaskId last = submit();
  head(DemandInfeasible{ClassId::of(5), {}, {}, "no node has 8 GPU", false});
  const TaskFact fact = fact_of(last);
  EXPECT_EQ(fact.phase, TaskPhase::waits_for_slot);
  EXPECT_EQ(fact.demand_class, ClassId::of(5));
  EXPECT_EQ(fact.ahead, 2u);
  EXPECT_EQ(fact.waiting, 3u);
  EXPECT_EQ(fact.slots, 0u);
  EXPECT_NE(fact.reason.find("8 GPU"), std::string::npos);
}

TEST_F(TaskQueries, ReportsRunningAfterExecutorNotified) {
  SubmitTask given = task(7);
  given.max_retries = 2;
  const TaskId id = submit(given);
  slot(3, 20);
  EXPECT_EQ(fact_of(id).phase, TaskPhase::at_executor);
  now_ = now_ + 1s;
  say(20, CallStarted{calls_at(20).at(0).number, 400ms});
  now_ = now_ + 1s;
  const TaskFact fact = fact_of(id);
  EXPECT_EQ(fact.phase, TaskPhase::runs);
  EXPECT_EQ(fact.since, Duration(1400ms));
  EXPECT_EQ(fact.executor, ProcessId::of(20));
  EXPECT_EQ(fact.node, node());
  EXPECT_EQ(fact.attempt, 0u);
  EXPECT_EQ(fact.retries_left, 2);

  slot_executor_ends(3, 20, EndKind::exited);
  slot(3, 21, 1);
  const TaskFact again = fact_of(id);
  EXPECT_EQ(again.phase, TaskPhase::at_executor) << "the next attempt has not started";
  EXPECT_EQ(again.attempt, 1u);
  EXPECT_EQ(again.retries_left, 1);
}

TEST_F(TaskQueries, IgnoresStartReportOfEndedCall) {
  const TaskId id = submit();
  slot(3, 20);
  const auto number = calls_at(20).at(0).number;
  reply_value(20, "done");
  say(20, CallStarted{number, 50ms});
  EXPECT_EQ(fact_of(id).phase, TaskPhase::finished);
}

TEST_F(TaskQueries, ActorCalls_ReportPositionAndActorState) {
  const ActorId actor = make_actor(50);
  call(actor);
  const TaskId second = call(actor);
  const TaskFact waiting = fact_of(second);
  EXPECT_EQ(waiting.phase, TaskPhase::waits_for_actor);
  EXPECT_EQ(waiting.actor, actor);
  EXPECT_EQ(waiting.ahead, 1u);
  EXPECT_FALSE(waiting.reason.empty());
  actor_alive(actor, 30, 1);
  const TaskFact sent = fact_of(second);
  EXPECT_EQ(sent.phase, TaskPhase::at_executor);
  EXPECT_EQ(sent.executor, ProcessId::of(30));
  EXPECT_EQ(sent.ahead, 1u);
}

TEST_F(TaskQueries, RemembersEndedTasksWithErrors) {
  SubmitTask failing = task(7);
  failing.max_retries = 0;
  const TaskId failed = submit(failing);
  slot(3, 20);
  reply_exception(20);
  const TaskId finished = submit();
  reply_value(20, "done");
  release(result(failed));
  release(result(finished));
  now_ = now_ + 2s;

  const TaskFact failure = fact_of(failed);
  EXPECT_EQ(failure.phase, TaskPhase::failed);
  EXPECT_EQ(failure.since, Duration(2s));
  EXPECT_FALSE(failure.error.empty());
  EXPECT_EQ(fact_of(finished).phase, TaskPhase::finished);
  const auto all = query_all();
  EXPECT_EQ(all.tasks.size(), 2u);
  EXPECT_EQ(all.left_out, 0u);
  EXPECT_EQ(count(all, "task 7", TaskPhase::failed), 1u);
}

TEST_F(TaskQueries, ReportsRunTimeFromReply) {
  const TaskId cancelled = submit();
  step(CancelObject{result(cancelled), false, true});
  EXPECT_EQ(fact_of(cancelled).run_time, std::nullopt) << "no reply has ended it";
  const TaskId first = submit();
  slot(3, 20);
  CallReply slow;
  slow.results.push_back(value("done"));
  slow.run_time = 1500us;
  reply(20, slow);
  EXPECT_EQ(fact_of(first).run_time, Duration(1500us));
}

TEST_F(TaskQueries, CancelledBeforeRun_IsFailed) {
  const TaskId id = submit();
  step(CancelObject{result(id), false, true});
  const TaskFact fact = fact_of(id);
  EXPECT_EQ(fact.phase, TaskPhase::failed);
  EXPECT_TRUE(fact.cancelled);
}

TEST_F(TaskQueries, FindsTaskByResultAndIdPrefix) {
  SubmitTask given = task(7);
  given.call.form.edit().num_returns = 2;
  const TaskId id = submit(given);
  EXPECT_EQ(fact_of(result(id, 1).hex()).task, id);
  EXPECT_EQ(fact_of(result(id, 1).hex().substr(0, 12)).task, id);
  TasksRequest unknown;
  unknown.id = TaskId::of(12345).hex();
  const auto nothing = query(unknown);
  EXPECT_TRUE(nothing.tasks.empty());
  EXPECT_EQ(nothing.request, 77u);
}

TEST_F(TaskQueries, FiltersAndLimitsReportOmissions) {
  for (int i = 0; i < 10; ++i) {
    SubmitTask given = task(200 + static_cast<std::uint64_t>(i));
    given.call.form.edit().name = i < 6 ? "many" : "few";
    submit(given);
  }
  TasksRequest bounded;
  bounded.limit = 4;
  const auto four = query(bounded);
  EXPECT_EQ(four.tasks.size(), 4u);
  EXPECT_EQ(four.left_out, 6u);
  EXPECT_EQ(count(four, "many", TaskPhase::waits_for_slot), 6u);
  TasksRequest named;
  named.name = "few";
  EXPECT_EQ(query(named).tasks.size(), 4u);
  TasksRequest running;
  running.phases = {TaskPhase::runs, TaskPhase::failed};
  EXPECT_TRUE(query(running).tasks.empty());
  running.phases.push_back(TaskPhase::waits_for_slot);
  EXPECT_EQ(query(running).tasks.size(), 10u);
}

TEST_F(TaskQueries, Failures_LeaveSpaceForPendingTasks) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    SubmitTask failing = task(300 + i);
    failing.max_retries = 0;
    submit(failing);
    slot(3, 20);
    reply_exception(20);
  }
  for (std::uint64_t i = 0; i < 10; ++i) {
    SubmitTask waiting = task(400 + i);
    waiting.demand_class.id = ClassId::of(6);
    submit(waiting);
  }
  TasksRequest bounded;
  bounded.limit = 6;
  const auto answer = query(bounded);
  ASSERT_EQ(answer.tasks.size(), 6u);
  EXPECT_EQ(answer.left_out, 14u);
  EXPECT_EQ(answer.tasks[2].phase, TaskPhase::waits_for_slot);
  EXPECT_EQ(answer.tasks[3].phase, TaskPhase::failed);
  EXPECT_EQ(answer.tasks[3].task, TaskId::of(309)) << "the newest first";
}

TEST(FinishedTasks, ForgetsOldestButCountsAll) {
  FinishedTasks ended;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    EndedTask task;
    task.task = TaskId::of(i);
    task.form.edit().name = "name " + std::to_string(i);
    ended.add(task);
    if (i % 500 == 0) ended.add(task);
  }
  EXPECT_EQ(ended.finished().size(), 1000u);
  EXPECT_EQ(ended.finished().front().task, TaskId::of(501));
  EXPECT_EQ(ended.counts().size(), 1001u);
  EXPECT_EQ(ended.counts().at(FinishedTasks::other_names).finished, 501u);
  EXPECT_EQ(ended.counts().at("name 500").finished, 2u);
  EXPECT_EQ(ended.counts().at("name 501").finished, 1u);
}

TEST(FinishedTasks, LimitsErrorBytes) {
  FinishedTasks ended;
  EndedTask task;
  task.failed = true;
  task.error = Payload(std::vector<std::byte>(1));
  task.error_bytes = 16 << 10;
  for (int i = 0; i < 300; ++i) ended.add(task);
  EXPECT_EQ(ended.failed().size(), 256u);  // 4 MiB of 16 KiB each
  EXPECT_FALSE(ended.failed()[ended.failed().size() - 1].error->empty());
  task.error_bytes = 17 << 10;
  ended.add(task);
  EXPECT_TRUE(ended.failed()[ended.failed().size() - 1].error->empty())
      << "too large a one is not kept";
}

TEST_F(TaskQueries, ReportsFailuresOnce) {
  SubmitTask given = task(7);
  given.max_retries = 0;
  const TaskId id = submit(given);
  slot(3, 20);
  slot_executor_ends(3, 20, EndKind::exited);
  ASSERT_EQ(error(result(id)).kind, ErrorKind::worker_crashed);
  EXPECT_EQ(core_.unreported_failures().tasks.size(), 1u)
      << "for a process that ends before the report";
  EXPECT_TRUE(to_head<TasksReply>().empty());
  pass(Duration(1s));
  const auto reports = to_head<TasksReply>();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].request, 0u);
  ASSERT_EQ(reports[0].tasks.size(), 1u);
  EXPECT_EQ(reports[0].tasks[0].task, id);
  EXPECT_EQ(reports[0].tasks[0].phase, TaskPhase::failed);
  EXPECT_FALSE(reports[0].tasks[0].error.empty());
  EXPECT_TRUE(core_.unreported_failures().tasks.empty());
  pass(Duration(5s));
  EXPECT_TRUE(to_head<TasksReply>().empty());
}

TEST_F(TaskQueries, OwnerBlocked_TaskIsAwaited) {
  const TaskId id = submit();
  EXPECT_FALSE(fact_of(id).awaited);
  step(BlockedOn{{result(id)}});
  EXPECT_TRUE(fact_of(id).awaited);
  step(BlockedOn{});
  EXPECT_FALSE(fact_of(id).awaited);
}

TEST_F(TaskQueries, NamesTensorsOfArguments) {
  SubmitTask given = task(7);
  Argument argument;
  argument.value = value("outer");
  RefRecord tensor{ObjectId::of(901), NodeId::of(4), ProcessId::of(40), {}};
  tensor.tensor.edit().size_bytes = 4;
  argument.value.contained.push_back(tensor);
  given.call.arguments.edit().push_back(argument);
  EXPECT_EQ(fact_of(submit(given)).tensors, std::vector{ObjectId::of(901)});
}

}  // namespace
}  // namespace mobula::internal::client
