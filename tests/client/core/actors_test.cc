// Calls of actors in their caller: order, restarts, ends.
#include "client/core/small_client.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

using ActorCalls = SmallClient;

TEST_F(ActorCalls, SendsCallsInSubmissionOrder) {
  const ActorId actor = make_actor(1);
  const TaskId slow = submit();
  SubmitActorCall waits;
  waits.call.form.edit().kind = CallKind::actor_call;
  waits.call.task = TaskId::of(1);
  waits.call.form.edit().actor = actor;
  waits.call.arguments.edit().push_back(by_ref(core_.ref_of(result(slow))));
  step(waits);
  const TaskId second = call(actor);
  actor_alive(actor, 20, 1);
  EXPECT_TRUE(calls_at(20).empty());
  slot(3, 30);
  reply_value(30, "ready");
  ASSERT_EQ(calls_at(20).size(), 2u);
  EXPECT_EQ(calls_at(20)[0].call.task, TaskId::of(1));
  EXPECT_EQ(calls_at(20)[1].call.task, second);
}

TEST_F(ActorCalls, OutOfOrder_ReadyCallsPassWaitingOnes) {
  SubmitActor own;
  own.spec.actor = ActorId::of(1);
  own.spec.out_of_order = true;
  step(own);
  const ActorId actor = own.spec.actor;
  const TaskId slow = submit();
  SubmitActorCall waits;
  waits.call.form.edit().kind = CallKind::actor_call;
  waits.call.task = TaskId::of(1);
  waits.call.form.edit().actor = actor;
  waits.call.arguments.edit().push_back(by_ref(core_.ref_of(result(slow))));
  step(waits);
  const TaskId second = call(actor);
  actor_alive(actor, 20, 1);
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.task, second);
  slot(3, 30);
  reply_value(30, "ready");
  ASSERT_EQ(calls_at(20).size(), 2u);
  EXPECT_EQ(calls_at(20)[1].call.task, TaskId::of(1));
}

TEST_F(ActorCalls, EachGroupHasItsOwnOrder) {
  const ActorId actor = make_actor(1, 1);
  const TaskId slow = submit();
  const auto call_in = [&](std::uint64_t number, const std::string& group, bool waits) {
    SubmitActorCall event;
    event.call.task = TaskId::of(number);
    event.call.form.edit().kind = CallKind::actor_call;
    event.call.form.edit().actor = actor;
    event.call.form.edit().group = group;
    event.call.form.edit().beside = group == "beside";
    if (waits) event.call.arguments.edit().push_back(by_ref(core_.ref_of(result(slow))));
    step(event);
  };
  const auto sent = [&](std::uint64_t executor) {
    std::vector<TaskId> tasks;
    for (const PushCall& each : calls_at(executor)) tasks.push_back(each.call.task);
    return tasks;
  };
  const auto tasks = [](std::vector<std::uint64_t> numbers) {
    std::vector<TaskId> found;
    for (const auto each : numbers) found.push_back(TaskId::of(each));
    return found;
  };
  call_in(1, "io", true);
  call_in(2, "io", false);
  call_in(3, "", false);
  call_in(4, "compute", false);
  call_in(5, "", true);
  call_in(6, "", false);
  call_in(7, "beside", false);
  actor_alive(actor, 20, 1);
  EXPECT_EQ(sent(20), tasks({3, 4, 7}));
  call_in(8, "io", false);
  call_in(9, "compute", false);
  EXPECT_EQ(sent(20), tasks({3, 4, 7, 9}));
  // A cancelled call delays its group no longer.
  step(CancelObject{result(TaskId::of(1)), false, false});
  EXPECT_EQ(sent(20), tasks({3, 4, 7, 9, 2, 8}));
  ActorChanged news;
  news.actor = actor;
  news.state = ActorState::restarting;
  news.version = 2;
  head(news);
  step(StreamEnded{ProcessId::of(20)});
  actor_alive(actor, 21, 3);
  EXPECT_EQ(sent(21), tasks({2, 3, 4, 7, 8, 9})) << "calls run again in submission order";
  slot(3, 30);
  reply_value(30, "ready");
  EXPECT_EQ(sent(21), tasks({2, 3, 4, 7, 8, 9, 5, 6}));
}

TEST_F(ActorCalls, ReadsPendingLimitFromCreationOrHead) {
  SubmitActor own;
  own.spec.actor = ActorId::of(1);
  own.spec.max_pending_calls = 3;
  step(own);
  EXPECT_EQ(core_.actor(own.spec.actor)->max_pending_calls, 3);

  const ActorId foreign = ActorId::of(2);
  step(AdoptRef{RefRecord{handle_id(foreign), NodeId::of(7), ProcessId::of(8), foreign}});
  EXPECT_EQ(core_.actor(foreign)->max_pending_calls, std::nullopt)
      << "the head has not reported the actor";
  ActorChanged news;
  news.actor = foreign;
  news.version = 1;
  news.max_pending_calls = 5;
  head(news);
  EXPECT_EQ(core_.actor(foreign)->max_pending_calls, 5);

  FindActorReply found;
  found.found = true;
  found.actor = ActorId::of(3);
  found.max_pending_calls = 7;
  head(found);
  EXPECT_EQ(core_.actor(found.actor)->max_pending_calls, 7);
}

TEST_F(ActorCalls, ExecutorLost_SentCallsFail) {
  const ActorId actor = make_actor(1);
  const TaskId sent = call(actor);
  actor_alive(actor, 20, 1);
  ASSERT_EQ(calls_at(20).size(), 1u);
  ActorChanged news;
  news.actor = actor;
  news.state = ActorState::restarting;
  news.version = 2;
  head(news);
  const TaskId later = call(actor);
  step(StreamEnded{ProcessId::of(20)});
  EXPECT_EQ(error(result(sent)).kind, ErrorKind::actor_unavailable);
  EXPECT_EQ(state(result(later)), "pending");
  actor_alive(actor, 21, 3);
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.task, later);
}

// The call is the last user of the actor here, and fails with the previous process of the actor.
TEST_F(ActorCalls, LastCallFailsWithRestart_RowIsRemoved) {
  const ActorId foreign = ActorId::of(2);
  step(AdoptRef{RefRecord{handle_id(foreign), NodeId::of(7), ProcessId::of(8), foreign}});
  actor_alive(foreign, 20, 1);
  const TaskId sent = call(foreign);
  ASSERT_EQ(calls_at(20).size(), 1u);
  release(handle_id(foreign));
  step(StreamEnded{ProcessId::of(20)});
  actor_alive(foreign, 21, 3);
  EXPECT_EQ(state(result(sent)), "error");
  EXPECT_EQ(core_.sizes().actors, 0u);
  EXPECT_TRUE(calls_at(21).empty());
}

TEST_F(ActorCalls, RetriesFirstAndInOrder) {
  const ActorId actor = make_actor(1, 1);
  const TaskId first = call(actor);
  const TaskId second = call(actor);
  actor_alive(actor, 20, 1);
  ASSERT_EQ(calls_at(20).size(), 2u);
  ActorChanged news;
  news.actor = actor;
  news.state = ActorState::restarting;
  news.version = 2;
  head(news);
  const TaskId third = call(actor);
  step(StreamEnded{ProcessId::of(20)});
  actor_alive(actor, 21, 3);
  const auto calls = calls_at(21);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].call.task, first);
  EXPECT_EQ(calls[0].call.attempt, 1u);
  EXPECT_EQ(calls[1].call.task, second);
  EXPECT_EQ(calls[2].call.task, third);
  EXPECT_EQ(calls[2].call.attempt, 0u);
}

TEST_F(ActorCalls, ActorDead_CallsFailWithCause) {
  const ActorId actor = make_actor(1);
  const TaskId before = call(actor);
  ActorChanged news;
  news.actor = actor;
  news.state = ActorState::dead;
  news.version = 1;
  news.cause.kind = EndKind::killed;
  news.cause.text = "killed by kill()";
  head(news);
  EXPECT_EQ(error(result(before)).kind, ErrorKind::actor_died);
  const TaskId after = call(actor);
  EXPECT_EQ(error(result(after)).kind, ErrorKind::actor_died);
  EXPECT_EQ(core_.pending_calls(actor), 0);
}

TEST_F(ActorCalls, LastHandleReleased_ActorEndsAfterCalls) {
  const ActorId actor = make_actor(1);
  const TaskId last = call(actor);
  actor_alive(actor, 20, 1);
  release(handle_id(actor));
  EXPECT_TRUE(to_head<EndActor>().empty());
  release(result(last));
  reply_value(20, "a result without refs");
  EXPECT_EQ(to_head<EndActor>().size(), 1u);
  EXPECT_EQ(core_.sizes().actors, 0u);
  EXPECT_EQ(core_.sizes().streams, 0u);
}

TEST_F(ActorCalls, QueueFull_CallsResentInOrderAsOthersEnd) {
  const ActorId actor = make_actor(1);
  actor_alive(actor, 20, 1);
  std::vector<TaskId> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(call(actor));
  // The actor has a free slot for two of these.
  for (std::uint64_t number = 3; number <= 5; ++number) {
    take_back(20, number);
    say(20, CallReturned{number, calls[number - 1], "", number == 3});
  }
  EXPECT_EQ(calls_at(20).size(), 2u) << "the queue of the executor is still full";
  calls.push_back(call(actor));
  EXPECT_EQ(calls_at(20).size(), 2u);
  reply_value(20, "done");
  ASSERT_EQ(calls_at(20).size(), 3u) << "one has ended, and one more is tried";
  EXPECT_EQ(calls_at(20)[1].call.task, calls[2]);
  EXPECT_EQ(calls_at(20)[2].call.task, calls[3]);
  while (!calls_at(20).empty()) reply_value(20, "done");
  for (const TaskId each : calls) EXPECT_EQ(state(result(each)), "value");
}

TEST_F(ActorCalls, QueueFullByOthers_RetriesWithBackoff) {
  const ActorId actor = make_actor(1);
  actor_alive(actor, 20, 1);
  const TaskId waits = call(actor);
  take_back(20, 1);
  say(20, CallReturned{1, waits, "", true});
  EXPECT_TRUE(calls_at(20).empty());
  const auto why = core_.why_pending(now_, result(waits));
  EXPECT_NE(why.find("it accepts no more calls from this process for now"), std::string::npos)
      << why;
  pass(Duration(19ms));
  EXPECT_TRUE(calls_at(20).empty());
  EXPECT_LE(core_.next_deadline(), now_ + Duration(1ms));
  pass(Duration(1ms));
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.task, waits);
  EXPECT_EQ(calls_at(20)[0].round, 2u);
  reply_value(20, "done");
  EXPECT_EQ(state(result(waits)), "value");
}

TEST_F(ActorCalls, ConstructorThrew_CallsDieWithItsCause) {
  const ActorId actor = make_actor(1);
  const TaskId before = call(actor);
  ErrorRecord thrown;
  thrown.text = "too large";
  thrown.remote_type = "std::length_error";
  ActorChanged died;
  died.actor = actor;
  died.version = 1;
  died.state = ActorState::dead;
  died.construction_error = error_value(thrown);
  head(died);
  const TaskId after = call(actor);
  for (const TaskId each : {before, after}) {
    const ErrorRecord seen = error(result(each));
    EXPECT_EQ(seen.kind, ErrorKind::actor_died);
    EXPECT_EQ(seen.actor, actor);
    EXPECT_NE(seen.text.find("its constructor threw std::length_error: too large"),
              std::string::npos)
        << seen.text;
    const auto cause = decode<ErrorRecord>(seen.cause.bytes());
    ASSERT_TRUE(cause);
    EXPECT_EQ(*cause, thrown);
  }
}

TEST_F(ActorCalls, CountsConstructorBytesUntilItRan) {
  SubmitActor submitted;
  submitted.spec.actor = ActorId::of(1);
  submitted.stored_bytes = 70'000;
  step(submitted);
  EXPECT_EQ(core_.pending_bytes(), 70'000);
  actor_alive(ActorId::of(1), 20, 1);
  EXPECT_EQ(core_.pending_bytes(), 0);
  SubmitActor dropped;
  dropped.spec.actor = ActorId::of(2);
  dropped.stored_bytes = 70'000;
  step(dropped);
  release(handle_id(ActorId::of(2)));
  EXPECT_EQ(core_.pending_bytes(), 0);
}

TEST_F(ActorCalls, TracksActorCallUntilItEnds) {
  const ActorId actor = make_actor(1);
  actor_alive(actor, 20, 1);
  const TaskId task = call(actor);
  EXPECT_TRUE(core_.is_actor_call(result(task)));
  reply_value(20, "done");
  EXPECT_FALSE(core_.is_actor_call(result(task)));
  EXPECT_FALSE(core_.is_actor_call(result(submit())));
}

TEST_F(ActorCalls, Constructor_WaitsForArguments) {
  const TaskId first = submit();
  SubmitActor actor;
  actor.spec.actor = ActorId::of(1);
  actor.spec.constructor.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  step(actor);
  EXPECT_TRUE(to_head<CreateActor>().empty());
  slot(3, 20);
  reply_value(20, "ready");
  ASSERT_EQ(to_head<CreateActor>().size(), 1u);
  EXPECT_FALSE(to_head<CreateActor>()[0].spec.constructor.arguments->at(0).is_ref);
}

TEST_F(ActorCalls, NameTheResourceThatNoNodeHas) {
  const ActorId actor = make_actor(5);
  const TaskId waits = call(actor);
  DemandInfeasible never;
  never.actor = actor;
  never.reasons.push_back(
      {NodeId::of(1), Reason{ReasonCode::resource_too_small, "GPU", {}, {}, {}}});
  never.summary = "no node has 4000 GPU";
  never.fatal = true;
  head(never);
  EXPECT_EQ(error(result(waits)).kind, ErrorKind::unschedulable);
  EXPECT_EQ(error(result(waits)).resource, "GPU");
}

TEST_F(ActorCalls, ReportsWhyActorIsPending) {
  const ActorId actor = make_actor(5);
  const TaskId waits = call(actor);
  DemandInfeasible never;
  never.actor = actor;
  never.summary = "no node has 4000 GPU";
  head(never);
  const auto why = core_.why_pending(now_, result(waits));
  EXPECT_NE(why.find("placing"), std::string::npos) << why;
  EXPECT_NE(why.find("no node has 4000 GPU"), std::string::npos) << why;
  actor_alive(actor, 20, 2);
  EXPECT_EQ(core_.why_pending(now_, result(waits)).find("4000"), std::string::npos);
}

}  // namespace
}  // namespace mobula::internal::client
