// Calls whose arguments an executor could not read: their caller, the owner of the arguments,
// decides.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class UnreadArguments : public SmallClient {
 protected:
  // A task whose result is in the store of node 2.
  TaskId make(std::int32_t max_retries) {
    SubmitTask maker = task(1);
    maker.max_retries = max_retries;
    const TaskId id = submit(maker);
    slot(3, 20);
    reply_stored();
    return id;
  }
  TaskId consume(ObjectId argument, std::int32_t max_retries) {
    SubmitTask reader = task(2);
    reader.max_retries = max_retries;
    reader.call.arguments.edit().push_back(by_ref(core_.ref_of(argument)));
    return submit(reader);
  }
  void reply_stored() {
    CallReply answer;
    ValueRecord stored;
    stored.in_store = true;
    stored.size_bytes = 1 << 20;
    stored.location = NodeId::of(2);
    answer.results.push_back(std::move(stored));
    reply(20, std::move(answer));
  }
  void reply_unread(ObjectId argument, std::uint64_t executor = 20) {
    ErrorRecord error;
    error.kind = ErrorKind::object_lost;
    CallReply answer;
    answer.outcome = CallOutcome::failed;
    answer.results.push_back(error_value(error));
    answer.unread.push_back(argument);
    reply(executor, std::move(answer));
  }
  void agent_reads(ObjectId argument, std::optional<Failure> why) {
    FetchObjectReply answer;
    answer.object = argument;
    answer.fetch = core_.object(argument)->reading->fetch;
    answer.failure = std::move(why);
    agent(answer);
  }
  std::vector<TaskId> sent() const {
    std::vector<TaskId> tasks;
    for (const auto& each : calls_at(20)) tasks.push_back(each.call.task);
    return tasks;
  }
};

TEST_F(UnreadArguments, BytesLost_RecomputesAndCallWaits) {
  const TaskId maker = make(-1);
  const TaskId reader = consume(result(maker), 0);
  for (int times = 0; times < 20; ++times) {
    ASSERT_EQ(sent(), std::vector<TaskId>{reader}) << times;
    reply_unread(result(maker));
    ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u) << "the owner reads it through its home";
    ASSERT_TRUE(sent().empty());
    agent_reads(result(maker), failure(ErrorCode::unavailable, "node 2 died"));
    ASSERT_EQ(sent(), std::vector<TaskId>{maker}) << times;
    reply_stored();
  }
  ASSERT_EQ(sent(), std::vector<TaskId>{reader});
  reply_value(20, "done");
  EXPECT_EQ(text(result(reader)), "done") << "although it may not be retried";
}

TEST_F(UnreadArguments, ReadableHere_CallIsResent) {
  const TaskId maker = make(0);
  const TaskId reader = consume(result(maker), 0);
  reply_unread(result(maker));
  EXPECT_TRUE(sent().empty());
  agent_reads(result(maker), std::nullopt);
  EXPECT_EQ(sent(), std::vector<TaskId>{reader});
}

TEST_F(UnreadArguments, ReadableHereAlone_ReturnsAreCharged) {
  const TaskId maker = make(0);
  const TaskId reader = consume(result(maker), 2);
  int times = 0;
  for (; state(result(reader)) == "pending" && times < 100; ++times) {
    ASSERT_EQ(sent(), std::vector<TaskId>{reader}) << times;
    reply_unread(result(maker));
    if (times == 0) agent_reads(result(maker), std::nullopt);
  }
  EXPECT_EQ(error(result(reader)).kind, ErrorKind::object_lost);
  EXPECT_GE(times, 10);
  EXPECT_LT(times, 20);
}

TEST_F(UnreadArguments, NotRecomputable_CallFailsWithLoss) {
  const TaskId maker = make(0);
  const TaskId reader = consume(result(maker), 100);
  reply_unread(result(maker));
  agent_reads(result(maker), failure(ErrorCode::unavailable, "node 2 died"));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(error(result(reader)).kind, ErrorKind::object_lost);
  EXPECT_NE(error(result(reader)).text.find("node 2 died"), std::string::npos);
}

TEST_F(UnreadArguments, AgentLostMeanwhile_CallAwaitsRecompute) {
  const TaskId maker = make(3);
  const TaskId reader = consume(result(maker), 0);
  reply_unread(result(maker));
  StartJob job;
  job.job = JobId::of(1);
  step(AgentLost{});
  step(Attached{node(), ProcessId::of(10), job});
  ASSERT_EQ(sent(), std::vector<TaskId>{maker});
  reply_stored();
  EXPECT_EQ(sent(), std::vector<TaskId>{reader});
}

TEST_F(UnreadArguments, Cancelled_CallEnds) {
  const TaskId maker = make(3);
  const TaskId reader = consume(result(maker), 0);
  reply_unread(result(maker));
  step(CancelObject{result(reader), false, true});
  EXPECT_EQ(error(result(reader)).kind, ErrorKind::task_cancelled);
}

TEST_F(UnreadArguments, CallOfActor_LaterCallsWaitBehindIt) {
  const TaskId maker = make(-1);
  const ActorId counter = make_actor(4);
  actor_alive(counter, 30, 1);
  SubmitActorCall event;
  event.call.form.edit().kind = CallKind::actor_call;
  event.call.form.edit().actor = counter;
  event.call.task = TaskId::of(50);
  event.call.arguments.edit().push_back(by_ref(core_.ref_of(result(maker))));
  step(event);
  const TaskId later = call(counter);
  ASSERT_EQ(calls_at(30).size(), 2u);
  const PushCall second = calls_at(30)[1];
  ErrorRecord error;
  error.kind = ErrorKind::object_lost;
  CallReply answer;
  answer.outcome = CallOutcome::failed;
  answer.results.push_back(error_value(error));
  answer.unread.push_back(result(maker));
  answer.lost = answer.unread;
  reply(30, std::move(answer));
  take_back(30, second.number);
  say(30, CallReturned{second.number, later, "", false});
  EXPECT_TRUE(calls_at(30).empty());
  agent_reads(result(maker), failure(ErrorCode::unavailable, "node 2 died"));
  reply_stored();
  ASSERT_EQ(calls_at(30).size(), 2u);
  EXPECT_EQ(calls_at(30)[0].call.task, TaskId::of(50));
  EXPECT_EQ(calls_at(30)[1].call.task, later);
}

// Another process owns the argument, and this one can read it.
class BorrowedArguments : public UnreadArguments {
 protected:
  BorrowedArguments() { step(AdoptRef{borrowed}); }
  TaskId consume_borrowed(std::int32_t max_retries) {
    SubmitTask reader = task(2);
    reader.max_retries = max_retries;
    reader.call.arguments.edit().push_back(by_ref(borrowed));
    const TaskId id = submit(reader);
    agent_reads(borrowed.object, std::nullopt);
    slot(3, 20);
    return id;
  }
  // The agent takes the memory of the argument back.
  void unpin() {
    UnpinRequest request;
    request.object = borrowed.object;
    request.fetch = core_.object(borrowed.object)->reading->location_fetch;
    agent(request);
  }
  const RefRecord borrowed{ObjectId::of(77), NodeId::of(2), ProcessId::of(5), {}};
};

TEST_F(BorrowedArguments, OwnerRecomputes_CallWaitsUncharged) {
  const TaskId reader = consume_borrowed(0);
  for (int times = 0; times < 5; ++times) {
    ASSERT_EQ(sent(), std::vector<TaskId>{reader}) << times;
    unpin();
    reply_unread(borrowed.object);
    EXPECT_EQ(to_agent<FetchObjectRequest>().size(), 1u)
        << "read through its home, which waits for the owner";
    ASSERT_TRUE(sent().empty());
    agent_reads(borrowed.object, std::nullopt);
  }
  ASSERT_EQ(sent(), std::vector<TaskId>{reader});
  EXPECT_EQ(calls_at(20)[0].call.attempt, 0u);
  reply_value(20, "done");
  EXPECT_EQ(text(result(reader)), "done");
}

TEST_F(BorrowedArguments, HomeAbsent_CallWaits) {
  const TaskId reader = consume_borrowed(0);
  unpin();
  reply_unread(borrowed.object);
  for (int times = 0; times < 4; ++times) {
    agent_reads(borrowed.object, failure(ErrorCode::unavailable, "home 2 died"));
    ASSERT_EQ(state(result(reader)), "pending") << times;
    ASSERT_TRUE(sent().empty());
    pass(Duration(10s));
    ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u) << times;
  }
  agent_reads(borrowed.object, std::nullopt);
  slot(4, 21);
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.task, reader);
  EXPECT_EQ(calls_at(21)[0].call.attempt, 0u);
}

TEST_F(BorrowedArguments, HomeAbsentAtSubmission_CallWaits) {
  SubmitTask reader = task(2);
  reader.call.arguments.edit().push_back(by_ref(borrowed));
  const TaskId id = submit(reader);
  agent_reads(borrowed.object, failure(ErrorCode::unavailable, "home 2 died"));
  ASSERT_EQ(state(result(id)), "pending");
  pass(Duration(1s));
  agent_reads(borrowed.object, std::nullopt);
  slot(3, 20);
  EXPECT_EQ(sent(), std::vector<TaskId>{id});
}

TEST_F(BorrowedArguments, HomeStaysAbsent_CallFailsWithLoss) {
  const TaskId reader = consume_borrowed(100);
  unpin();
  reply_unread(borrowed.object);
  int times = 0;
  for (; state(result(reader)) == "pending" && times < 20; ++times) {
    agent_reads(borrowed.object, failure(ErrorCode::unavailable, "home 2 died"));
    pass(Duration(10s));
  }
  EXPECT_EQ(times, 7);
  EXPECT_EQ(error(result(reader)).kind, ErrorKind::object_lost);
}

TEST_F(BorrowedArguments, OwnerDead_CallFailsAtOnce) {
  const TaskId reader = consume_borrowed(0);
  unpin();
  PeersDead dead;
  dead.processes = {borrowed.owner};
  agent(dead);
  reply_unread(borrowed.object);
  EXPECT_EQ(error(result(reader)).kind, ErrorKind::object_lost);
}

TEST_F(BorrowedArguments, AgentLostMeanwhile_CallIsResent) {
  const TaskId reader = consume_borrowed(0);
  unpin();
  reply_unread(borrowed.object);
  ASSERT_TRUE(sent().empty());
  StartJob job;
  job.job = JobId::of(1);
  step(AgentLost{});
  step(Attached{node(), ProcessId::of(10), job});
  EXPECT_EQ(sent(), std::vector<TaskId>{reader});
}

// A borrowed object that was lost may be recomputed by its owner.
TEST_F(UnreadArguments, BorrowedObjectLost_NextRequestReadsAgain) {
  const RefRecord borrowed{ObjectId::of(77), NodeId::of(2), ProcessId::of(5), {}};
  step(AdoptRef{borrowed});
  step(WantObject{borrowed.object, true});
  agent_reads(borrowed.object, failure(ErrorCode::unavailable, "home 2 died"));
  ASSERT_TRUE(core_.settled(borrowed.object));
  ASSERT_TRUE(why_unread(*core_.object(borrowed.object)));
  EXPECT_FALSE(core_.want_quietly(borrowed.object));
  step(WantObject{borrowed.object, true});
  EXPECT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  EXPECT_FALSE(core_.settled(borrowed.object));
  agent_reads(borrowed.object, std::nullopt);
  EXPECT_FALSE(why_unread(*core_.object(borrowed.object)));
}

}  // namespace
}  // namespace mobula::internal::client
