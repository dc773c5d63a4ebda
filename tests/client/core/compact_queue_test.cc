// Tasks far from their turn are compact. The difference is visible in memory use alone.
#include "client/core/calls/dispatch/compact_queue.h"

#include "base/random.h"
#include "client/core/small_client.h"
#include "protocol/messages/core_records.h"

namespace mobula::internal::client {
namespace {

ClientOptions near(std::size_t tasks) {
  ClientOptions options;
  options.near_tasks = tasks;
  return options;
}

CallForm form(const std::string& name, std::uint32_t num_returns = 1) {
  CallForm form;
  form.job = JobId::of(1);
  form.name = name;
  form.num_returns = num_returns;
  return form;
}

class CompactQueueTest : public SmallClient {
 protected:
  CompactQueueTest() : SmallClient(near(2)) {}

  TaskId submit_with(const std::string& text) {
    SubmitTask given = task(++number_);
    given.call.form = form_;
    Argument argument;
    argument.value = value(text);
    given.call.arguments = Arguments{argument, argument};
    return submit(given);
  }
  std::vector<TaskId> submit_many(int count) {
    std::vector<TaskId> tasks;
    for (int i = 0; i < count; ++i) tasks.push_back(submit_with("argument " + std::to_string(i)));
    return tasks;
  }
  // Runs all tasks at one executor. Returns their order.
  std::vector<TaskId> run_all() {
    std::vector<TaskId> ran;
    slot(1, 10);
    while (!calls_at(10).empty()) {
      const CallRecord call = calls_at(10).front().call;
      ran.push_back(call.task);
      arguments_.push_back(*call.arguments);
      reply_value(10, "done");
    }
    return ran;
  }

  CopyOnWrite<CallForm> form_ = form("far");
  std::vector<Arguments> arguments_;
  std::uint64_t number_ = 500;
};

TEST_F(CompactQueueTest, RunsInOrderWithArguments) {
  const auto tasks = submit_many(50);
  EXPECT_EQ(core_.sizes().tasks, 50u);
  EXPECT_EQ(core_.sizes().objects, 50u);
  EXPECT_EQ(run_all(), tasks);
  for (int i = 0; i < 50; ++i) {
    const auto& arguments = arguments_[static_cast<std::size_t>(i)];
    ASSERT_EQ(arguments.size(), 2u);
    EXPECT_EQ(arguments[1].value, value("argument " + std::to_string(i)));
  }
  for (const TaskId each : tasks) {
    EXPECT_EQ(text(result(each)), "done");
    release(result(each));
  }
  EXPECT_EQ(core_.sizes().tasks, 0u);
  EXPECT_EQ(core_.sizes().objects, 0u);
  EXPECT_EQ(core_.pending_bytes(), 0);
}

TEST_F(CompactQueueTest, ShowsCompactedTasksAsPending) {
  const auto tasks = submit_many(5);
  EXPECT_EQ(state(result(tasks[4])), "pending");
  EXPECT_FALSE(core_.settled(result(tasks[4])));
  EXPECT_EQ(core_.ref_of(result(tasks[4])),
            (RefRecord{result(tasks[4]), node(), ProcessId::of(1), {}}));
  EXPECT_NE(core_.why_pending(now_ + 2s, result(tasks[4])).find("far is queued for a slot with "),
            std::string::npos);
  EXPECT_NE(core_.why_pending(now_ + 2s, result(tasks[4])).find("since 2000 ms, 5 waiting"),
            std::string::npos);
}

TEST_F(CompactQueueTest, LastRefReleased_StillRuns) {
  const auto tasks = submit_many(6);
  EXPECT_TRUE(core_.retain_quietly(result(tasks[4])));
  release(result(tasks[4]));
  EXPECT_EQ(state(result(tasks[4])), "pending");
  release(result(tasks[4]));
  EXPECT_EQ(state(result(tasks[4])), "unknown");
  EXPECT_EQ(core_.sizes().objects, 5u);
  EXPECT_EQ(run_all(), tasks);
  EXPECT_EQ(state(result(tasks[4])), "unknown");
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(CompactQueueTest, WaitsForCompactedResults) {
  const auto tasks = submit_many(6);
  EXPECT_TRUE(core_.want_quietly(result(tasks[5])));
  run_all();
  EXPECT_EQ(core_.object(result(tasks[5]))->wants, 1);
}

TEST_F(CompactQueueTest, CancelsQueuedTasks) {
  auto tasks = submit_many(6);
  step(CancelObject{result(tasks[4]), false, true});
  EXPECT_EQ(error(result(tasks[4])).kind, ErrorKind::task_cancelled);
  pass(50ms);
  ASSERT_EQ(to_head<Demand>().size(), 1u);
  EXPECT_EQ(to_head<Demand>().front().wanted_slots, 5);
  tasks.erase(tasks.begin() + 4);
  EXPECT_EQ(run_all(), tasks);
}

TEST_F(CompactQueueTest, CancelsCompactedTasksWithParent) {
  submit_many(3);
  SubmitTask child = task(900);
  child.parent = TaskId::of(77);
  submit(child);
  step(CancelChildren{TaskId::of(77)});
  EXPECT_EQ(error(result(TaskId::of(900))).kind, ErrorKind::task_cancelled);
  EXPECT_EQ(run_all().size(), 3u);
}

TEST_F(CompactQueueTest, ResultIsArgument_KeepsPosition) {
  const auto tasks = submit_many(8);
  SubmitTask user = task(901);
  user.call.arguments.edit().push_back(by_ref(core_.ref_of(result(tasks[5]))));
  submit(user);
  const TaskId last = submit_with("last");
  auto order = tasks;
  order.push_back(last);
  order.push_back(user.call.task);  // queued when its argument became ready
  EXPECT_EQ(run_all(), order);
}

TEST_F(CompactQueueTest, RefEscapes_KeepsPosition) {
  const auto tasks = submit_many(5);
  ValueRecord outer = value("outer");
  outer.contained.push_back(core_.ref_of(result(tasks[3])));
  step(PutInline{ObjectId::of(40), outer});
  EXPECT_EQ(run_all(), tasks);
}

TEST_F(CompactQueueTest, ClassInfeasible_AllFail) {
  const auto tasks = submit_many(20);
  DemandInfeasible never;
  never.demand_class = ClassId::of(5);
  never.reasons.push_back({NodeId::of(1), Reason{ReasonCode::resource_absent, "GPU", {}, {}, {}}});
  never.summary = "too large";
  never.fatal = true;
  head(never);
  for (const TaskId each : tasks) {
    EXPECT_EQ(error(result(each)).text, "task far can never be scheduled: too large");
    EXPECT_EQ(error(result(each)).resource, "GPU");
  }
}

TEST_F(CompactQueueTest, KeepsComplexTasksExpanded) {
  submit_many(3);
  SubmitTask two = task(902);
  two.call.form.edit().num_returns = 2;
  submit(two);
  SubmitTask large = task(903);
  Argument argument;
  argument.value = value(std::string(1000, 'x'));
  large.call.arguments.edit().push_back(argument);
  submit(large);
  const TaskId last = submit_with("last");
  const auto ran = run_all();
  ASSERT_EQ(ran.size(), 6u);
  EXPECT_EQ(ran[3], two.call.task);
  EXPECT_EQ(ran[4], large.call.task);
  EXPECT_EQ(ran[5], last);
  EXPECT_EQ(arguments_[4].front().value, argument.value);
}

TEST_F(CompactQueueTest, ListsCompactedTasks) {
  const auto tasks = submit_many(30);
  TasksRequest all;
  all.limit = 10;
  head(all);
  auto answer = to_head<TasksReply>().at(0);
  ASSERT_EQ(answer.counts.size(), 1u);
  EXPECT_EQ(answer.counts[0].count, 30u);
  EXPECT_EQ(answer.tasks.size(), 10u);
  EXPECT_EQ(answer.left_out, 20u);
  TasksRequest one;
  one.limit = 10;
  one.id = result(tasks[20]).hex();
  head(one);
  answer = to_head<TasksReply>().at(0);
  ASSERT_EQ(answer.tasks.size(), 1u);
  EXPECT_EQ(answer.tasks[0].task, tasks[20]);
  EXPECT_EQ(answer.tasks[0].ahead, 20u);
  EXPECT_EQ(answer.tasks[0].waiting, 30u);
  EXPECT_EQ(answer.tasks[0].phase, TaskPhase::waits_for_slot);
}

// Two cores get equal events, and one of them never compacts tasks: their commands must be equal.
class BesideAWholeOne : public testing::TestWithParam<std::uint64_t> {
 protected:
  BesideAWholeOne() {
    for (ClientCore* core : {&small_, &whole_}) {
      std::vector<Command> commands;
      StartJob job;
      job.job = JobId::of(1);
      core->step(now_, Attached{NodeId::of(1), ProcessId::of(9), job}, commands);
    }
  }

  void step(const Event& event) {
    std::vector<Command> expected, commands;
    whole_.step(now_, event, expected);
    small_.step(now_, event, commands);
    ASSERT_EQ(commands.size(), expected.size()) << CoreRecords<ClientCore>::text(event);
    for (std::size_t i = 0; i < commands.size(); ++i) {
      ASSERT_TRUE(commands[i] == expected[i]) << CoreRecords<ClientCore>::text(event) << "\n"
                                              << CoreRecords<ClientCore>::text(commands[i]) << "\n"
                                              << CoreRecords<ClientCore>::text(expected[i]);
      const auto* answer = std::get_if<SendToExecutor>(&commands[i]);
      if (answer == nullptr || !answer->frame.message) continue;
      Executor& executor = executors_[answer->executor];
      executor.received = answer->frame.sequence;
      if (const auto* push = std::get_if<PushCall>(&*answer->frame.message))
        executor.calls.push_back(*push);
    }
    ASSERT_EQ(small_.sizes().tasks, whole_.sizes().tasks);
    ASSERT_EQ(small_.sizes().objects, whole_.sizes().objects);
    ASSERT_EQ(small_.pending_bytes(), whole_.pending_bytes());
    ASSERT_EQ(small_.next_deadline(), whole_.next_deadline());
  }

  ObjectId any_object() { return objects_[random_.below(objects_.size())]; }

  void submit() {
    SubmitTask event;
    event.call.task = TaskId::of(++tasks_);
    const std::uint64_t kind = random_.below(3);
    event.call.form = forms_[kind];
    event.demand_class.id = ClassId::of(1 + random_.below(2));
    event.demand_class.job = JobId::of(1);
    event.parent = TaskId::of(1'000'000 + random_.below(3));
    event.max_retries = static_cast<std::int32_t>(random_.below(2));
    for (std::uint64_t i = random_.below(3); i-- > 0;) {
      Argument argument;
      if (!refs_.empty() && random_.below(4) == 0) {
        argument.is_ref = true;
        argument.ref = whole_.ref_of(refs_[random_.below(refs_.size())]);
      } else {
        const std::vector<std::byte> bytes(random_.below(60), std::byte{7});
        argument.value.bytes = Payload(bytes);
        argument.value.size_bytes = static_cast<std::int64_t>(bytes.size());
      }
      event.call.arguments.edit().push_back(std::move(argument));
    }
    step(event);
    for (std::uint32_t i = 0; i < event.call.form->num_returns; ++i) {
      refs_.push_back(result_id(event.call.task, i));
      objects_.push_back(refs_.back());
    }
  }

  void answer() {
    for (auto& [process, executor] : executors_) {
      if (executor.calls.empty() || random_.below(3) == 0) continue;
      ReceivedFromExecutor said;
      said.executor = process;
      said.frame.sequence = ++executor.sent;
      said.frame.acknowledged = executor.received;
      const PushCall call = executor.calls.front();
      executor.calls.erase(executor.calls.begin());
      if (random_.below(8) == 0) {
        said.frame.message = CallReturned{call.number, call.call.task, "", false};
      } else {
        CallReply reply;
        reply.number = call.number;
        reply.task = call.call.task;
        reply.attempt = call.call.attempt;
        reply.run_time = 1us;
        reply.results.resize(call.call.form->num_returns);
        said.frame.message = std::move(reply);
      }
      step(said);
      if (HasFatalFailure()) return;
    }
  }

  void grant() {
    SlotReady ready;
    ready.slot = SlotId::of(++slots_);
    ready.demand_class = ClassId::of(1 + random_.below(2));
    ready.node = NodeId::of(1);
    ready.endpoint.process = ProcessId::of(100 + slots_);
    step(ReceivedFromAgent{FromHead{ready}});
  }

  void release_one() {
    if (refs_.empty()) return;
    const std::size_t at = random_.below(refs_.size());
    const ObjectId object = refs_[at];
    refs_.erase(refs_.begin() + static_cast<std::ptrdiff_t>(at));
    step(ReleaseRef{object});
  }

  void something() {
    switch (random_.below(24)) {
      case 0: return grant();
      case 1:
      case 2:
      case 3: return release_one();
      case 4: return step(CancelObject{any_object(), false, random_.below(2) == 0});
      case 5: return step(WantObject{any_object(), false});
      case 6: return step(UnwantObject{any_object()});
      case 7: {
        if (refs_.empty()) return;
        refs_.push_back(refs_[random_.below(refs_.size())]);
        return step(RetainRef{refs_.back()});
      }
      case 8: {
        if (random_.below(10) != 0) return;
        return step(CancelChildren{TaskId::of(1'000'000 + random_.below(3))});
      }
      case 9: {
        now_ = now_ + Duration(static_cast<std::int64_t>(random_.below(60'000'000)));
        return step(Tick{});
      }
      case 10:
      case 11:
      case 12:
      case 13: return answer();
      case 14: {
        if (refs_.empty()) return;
        ValueRecord value;
        value.contained.push_back(whole_.ref_of(refs_[random_.below(refs_.size())]));
        const ObjectId object = ObjectId::of(5'000'000 + ++puts_);
        step(PutInline{object, value});
        refs_.push_back(object);
        return;
      }
      case 15: {
        if (random_.below(30) != 0) return;
        DemandInfeasible never;
        never.demand_class = ClassId::of(1 + random_.below(2));
        never.fatal = true;
        return step(ReceivedFromAgent{FromHead{never}});
      }
      default: return submit();
    }
  }

  struct Executor {
    std::uint64_t sent = 0, received = 0;
    std::vector<PushCall> calls;
  };
  Random random_{GetParam()};
  Time now_ = Time::from_ns(1);
  static ClientOptions options(std::size_t near_tasks) {
    ClientOptions options = near(near_tasks);
    options.process = ProcessId::of(1);
    options.job = JobId::of(1);
    return options;
  }
  ClientCore small_{options(1 + GetParam() % 5)};
  ClientCore whole_{options(1'000'000)};
  std::map<ProcessId, Executor> executors_;
  std::array<CopyOnWrite<CallForm>, 3> forms_ = {form("one"), form("other"),
                                                 form("two results", 2)};
  std::vector<ObjectId> refs_;                      // refs of user code
  std::vector<ObjectId> objects_{ObjectId::of(1)};  // objects that existed at some time
  std::uint64_t tasks_ = 0, slots_ = 0, puts_ = 0;
};

TEST_P(BesideAWholeOne, MatchesExpandedQueue) {
  for (int i = 0; i < 600 && !HasFatalFailure(); ++i) something();
  for (int i = 0; i < 5000 && whole_.sizes().tasks > 0 && !HasFatalFailure(); ++i) {
    if (i % 20 == 0) grant();
    answer();
  }
  while (!refs_.empty() && !HasFatalFailure()) release_one();
  if (HasFatalFailure()) return;
  EXPECT_EQ(small_.sizes().tasks, 0u) << "seed " << GetParam();
}
INSTANTIATE_TEST_SUITE_P(Seeds, BesideAWholeOne, testing::Range<std::uint64_t>(1, 41));

// Memory of a queued task in its owner, without the ref of the user: a million of them may wait.
TEST(CompactQueue, UsesFewBytesPerTask) {
  static_assert(sizeof(TaskRow) + sizeof(ObjectRow) > 280, "or else they need not be kept small");
  CompactQueue backlog;
  BacklogLine line;
  TaskRow row;
  row.call.form = form("far");
  row.live_results = 1;
  ASSERT_TRUE(CompactQueue::fits(row));
  for (std::uint64_t i = 1; i <= 5000; ++i) backlog.add(line, TaskId::of(i), row, 1, 0, no_watcher);
  EXPECT_EQ(backlog.tasks(), 5000u);
  for (std::uint64_t i = 1; i <= 5000; ++i) {
    const auto next = backlog.take_front(line);
    ASSERT_TRUE(next && next->whole);
    EXPECT_EQ(next->task, TaskId::of(i));
    EXPECT_FALSE(backlog.contains(result_id(next->task, 0)));
  }
  EXPECT_FALSE(backlog.take_front(line));
  EXPECT_EQ(backlog.tasks() + backlog.results(), 0u);
}

}  // namespace
}  // namespace mobula::internal::client
