// Calls that an actor rejects because elements of their arguments are lost, and calls whose own
// results are lost: the calls that their caller resends, the time, and the order.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

constexpr std::uint64_t maker = 30;  // an executor of tasks
constexpr std::uint64_t host = 20;   // the executor of the actor

class LostElements : public SmallClient {
 protected:
  static constexpr ObjectId elements(std::uint64_t number) { return ObjectId::of(900 + number); }

  ActorId actor_at_host() {
    const ActorId actor = make_actor(1);
    actor_alive(actor, host, 1);
    return actor;
  }
  // A finished task that made a tensor.
  TaskId make_tensor(std::int32_t retries = -1) {
    SubmitTask making = task(++made_);
    making.max_retries = retries;
    const TaskId made = submit(making);
    slot(3, maker);
    reply_with_tensor();
    return made;
  }
  // Replies to the oldest call at the maker, with new elements each time.
  void reply_with_tensor() {
    ValueRecord made = value("made");
    RefRecord ref{elements(++tensors_), node(), ProcessId::of(maker), {}};
    ref.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
    made.contained.push_back(ref);
    CallReply answer;
    answer.results.push_back(std::move(made));
    reply(maker, answer);
  }
  TaskId call_with(ActorId actor, TaskId made, bool beside = false) {
    SubmitActorCall event;
    event.call.form.edit().kind = CallKind::actor_call;
    event.call.form.edit().actor = actor;
    event.call.form.edit().beside = beside;
    event.call.task = TaskId::of(++made_);
    event.call.arguments.edit().push_back(by_ref(core_.ref_of(result(made))));
    step(event);
    return event.call.task;
  }
  // Rejects the actor's oldest call.
  void refuse(std::uint64_t tensor) {
    ErrorRecord error;
    error.kind = ErrorKind::object_lost;
    CallReply answer;
    answer.outcome = CallOutcome::failed;
    answer.results.push_back(error_value(error));
    answer.lost.push_back(elements(tensor));
    reply(host, answer);
  }
  // A finished call whose value, with a tensor, is in the store of another node.
  TaskId stored_by(ActorId actor) {
    const TaskId made = call(actor);
    ValueRecord value;
    value.in_store = true;
    value.size_bytes = 1 << 20;
    value.location = NodeId::of(2);
    RefRecord ref{elements(1), node(), ProcessId::of(host), {}};
    ref.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
    value.contained.push_back(ref);
    CallReply answer;
    answer.results.push_back(std::move(value));
    reply(host, answer);
    return made;
  }
  std::vector<TaskId> sent() const {
    std::vector<TaskId> tasks;
    for (const auto& each : calls_at(host)) tasks.push_back(each.call.task);
    return tasks;
  }

 private:
  std::uint64_t made_ = 200;
  std::uint64_t tensors_ = 0;
};

TEST_F(LostElements, CallsBehindWaitAndResendInOrder) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const TaskId first = call_with(actor, made);
  const TaskId second = call(actor);
  const TaskId third = call(actor);
  ASSERT_EQ(sent(), (std::vector{first, second, third}));
  EXPECT_EQ(calls_at(host)[0].round, 1u);
  refuse(1);
  const TaskId fourth = call(actor);
  EXPECT_TRUE(to_executor<PushCall>().empty()) << "it would start before the first";
  const auto why = core_.why_pending(now_, result(fourth));
  EXPECT_NE(why.find("the calls sent after it are returned first"), std::string::npos) << why;
  hand_back_all(host);
  EXPECT_TRUE(sent().empty());
  reply_with_tensor();
  ASSERT_EQ(sent(), (std::vector{first, second, third, fourth}));
  for (const auto& each : calls_at(host)) {
    EXPECT_EQ(each.round, 2u);
    EXPECT_EQ(each.call.attempt, 0u) << "none has run";
  }
  for (int i = 0; i < 4; ++i) reply_value(host, "done");
  for (const TaskId each : {first, second, third, fourth}) EXPECT_EQ(state(result(each)), "value");
}

TEST_F(LostElements, CallsOfOtherGroups_DoNotReturn) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const auto call_in_io = [&](std::uint64_t number) {
    SubmitActorCall event;
    event.call.form.edit().kind = CallKind::actor_call;
    event.call.form.edit().actor = actor;
    event.call.form.edit().group = "io";
    event.call.task = TaskId::of(number);
    step(event);
    return event.call.task;
  };
  const TaskId first = call_with(actor, made);
  const TaskId other = call_in_io(1);
  const TaskId second = call(actor);
  refuse(1);
  const TaskId later = call_in_io(2);
  EXPECT_EQ(sent(), (std::vector{other, second, later}));
  take_back(host, 3);
  say(host, CallReturned{3, second, "", false});
  reply_with_tensor();
  EXPECT_EQ(sent(), (std::vector{other, later, first, second}))
      << "the running call is not awaited";
}

TEST_F(LostElements, OutOfOrder_NoCallReturns) {
  SubmitActor own;
  own.spec.actor = ActorId::of(1);
  own.spec.out_of_order = true;
  step(own);
  actor_alive(own.spec.actor, host, 1);
  const TaskId made = make_tensor();
  const TaskId first = call_with(own.spec.actor, made);
  const TaskId second = call(own.spec.actor);
  refuse(1);
  const TaskId third = call(own.spec.actor);
  EXPECT_EQ(sent(), (std::vector{second, third}));
  reply_with_tensor();
  EXPECT_EQ(sent(), (std::vector{second, third, first}));
}

TEST_F(LostElements, RecomputesBeforeAllCallsReturned) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const TaskId first = call_with(actor, made);
  const TaskId second = call(actor);
  refuse(1);
  reply_with_tensor();
  EXPECT_EQ(sent(), std::vector{second}) << "the first call waits until the second is returned";
  hand_back_all(host);
  EXPECT_EQ(sent(), (std::vector{first, second}));
}

TEST_F(LostElements, NotRecomputable_FailsOnlyItsCall) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor(0);
  const TaskId first = call_with(actor, made);
  const TaskId second = call(actor);
  refuse(1);
  EXPECT_EQ(error(result(first)).kind, ErrorKind::object_lost);
  EXPECT_EQ(state(result(second)), "pending");
  hand_back_all(host);
  EXPECT_EQ(sent(), std::vector{second});
}

TEST_F(LostElements, LastCallLost_LaterCallsProceed) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor(0);
  const TaskId first = call_with(actor, made);
  refuse(1);
  EXPECT_EQ(error(result(first)).kind, ErrorKind::object_lost);
  const TaskId second = call(actor);
  EXPECT_EQ(sent(), std::vector{second});
}

TEST_F(LostElements, CallCancelled_RecomputesNothing) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const TaskId first = call_with(actor, made);
  const TaskId second = call(actor);
  step(CancelObject{result(first), false, true});
  refuse(1);
  EXPECT_EQ(error(result(first)).kind, ErrorKind::task_cancelled);
  EXPECT_TRUE(calls_at(maker).empty());
  hand_back_all(host);
  EXPECT_EQ(sent(), std::vector{second});
}

TEST_F(LostElements, CancelledWhileReturning_IsNotResent) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const TaskId first = call_with(actor, made);
  const TaskId second = call(actor);
  const TaskId third = call(actor);
  refuse(1);
  step(CancelObject{result(second), false, true});
  hand_back_all(host);
  EXPECT_EQ(error(result(second)).kind, ErrorKind::task_cancelled);
  reply_with_tensor();
  EXPECT_EQ(sent(), (std::vector{first, third}));
}

TEST_F(LostElements, ConcurrentCalls_AreNotAwaited) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const TaskId first = call_with(actor, made);
  const TaskId beside = call_with(actor, make_tensor(), true);
  ASSERT_EQ(sent(), (std::vector{first, beside}));
  refuse(1);
  reply_with_tensor();
  EXPECT_EQ(sent(), (std::vector{beside, first})) << "the running call is not returned";
}

TEST_F(LostElements, ActorRestarted_CallsGoToNextInOrder) {
  const ActorId actor = actor_at_host();
  const TaskId made = make_tensor();
  const TaskId first = call_with(actor, made);
  const TaskId second = call(actor);
  const TaskId third = call(actor);
  refuse(1);
  hand_back_all(host);
  ActorChanged news;
  news.actor = actor;
  news.state = ActorState::restarting;
  news.version = 2;
  head(news);
  step(StreamEnded{ProcessId::of(host)});
  actor_alive(actor, 21, 3);
  reply_with_tensor();
  ASSERT_EQ(calls_at(21).size(), 3u);
  EXPECT_EQ(calls_at(21)[0].call.task, first);
  EXPECT_EQ(calls_at(21)[1].call.task, second);
  EXPECT_EQ(calls_at(21)[2].call.task, third);
  EXPECT_EQ(calls_at(21)[0].round, 1u) << "the first round of the new stream";
}

TEST_F(LostElements, ActorAlive_RecomputesStoredValue) {
  const ActorId actor = make_actor(1, -1);
  actor_alive(actor, host, 1);
  const TaskId made = stored_by(actor);
  step(ReceivedFromAgent{ObjectGone{result(made), "node 2 died"}});
  EXPECT_EQ(state(result(made)), "pending");
  ASSERT_EQ(sent(), std::vector{made});
  EXPECT_EQ(calls_at(host)[0].call.attempt, 1u);
  reply_value(host, "again");
  EXPECT_EQ(state(result(made)), "value");
}

TEST_F(LostElements, ActorDead_StoredValueIsLost) {
  const ActorId actor = make_actor(1, -1);
  actor_alive(actor, host, 1);
  const TaskId made = stored_by(actor);
  ActorChanged dead;
  dead.actor = actor;
  dead.state = ActorState::dead;
  dead.version = 2;
  head(dead);
  step(ReceivedFromAgent{ObjectGone{result(made), "node 2 died"}});
  EXPECT_EQ(error(result(made)).kind, ErrorKind::object_lost);
  EXPECT_NE(error(result(made)).text.find("its actor is dead"), std::string::npos)
      << error(result(made)).text;
}

}  // namespace
}  // namespace mobula::internal::client
