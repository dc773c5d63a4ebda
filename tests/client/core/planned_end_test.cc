// Planned exit of a process that has submitted work.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class PlannedEnd : public SmallClient {
 protected:
  bool done() const { return !commanded<SubmittedDone>().empty(); }
  void acknowledge(ActorId actor) {
    ActorChanged news;
    news.actor = actor;
    news.version = 1;
    news.state = ActorState::placing;
    head(news);
  }
};

TEST_F(PlannedEnd, FinishesAtOnceWithoutWork) {
  step(AwaitSubmitted{});
  EXPECT_TRUE(done());
  EXPECT_EQ(core_.unfinished().calls, 0u);
}

TEST_F(PlannedEnd, RefReleased_AwaitsTask) {
  const TaskId task = submit();
  release(result(task));
  slot(1, 20);
  EXPECT_EQ(core_.unfinished().calls, 1u);
  step(AwaitSubmitted{});
  EXPECT_FALSE(done());
  reply_value(20, "result");
  EXPECT_TRUE(done());
}

TEST_F(PlannedEnd, ReturnsItsSlots) {
  submit();
  slot(1, 20);
  step(AwaitSubmitted{});
  reply_value(20, "result");
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

TEST_F(PlannedEnd, AwaitsCallsOfActors) {
  const ActorId actor = make_actor(1);
  const TaskId pending = call(actor);
  release(result(pending));
  step(AwaitSubmitted{});
  EXPECT_FALSE(done());
  actor_alive(actor, 30, 1);
  EXPECT_FALSE(done());
  reply_value(30, "result");
  EXPECT_TRUE(done());
}

TEST_F(PlannedEnd, AwaitsAcknowledgementOfActor) {
  const ActorId actor = make_actor(1);
  step(AwaitSubmitted{});
  EXPECT_FALSE(done());
  acknowledge(actor);
  EXPECT_TRUE(done());
}

TEST_F(PlannedEnd, EntrustsActorsThatOthersHold) {
  const ActorId actor = make_actor(1);
  acknowledge(actor);
  // Its handle leaves in a value.
  ValueRecord container = value("with a handle");
  container.contained.push_back(core_.ref_of(handle_id(actor)));
  step(PutInline{ObjectId::of(500), container});
  step(AwaitSubmitted{});
  ASSERT_TRUE(done());
  const auto exported = to_agent<ExportObject>();
  ASSERT_EQ(exported.size(), 1u);
  EXPECT_EQ(exported[0].entrusted, actor);
  EXPECT_TRUE(to_head<EndActor>().empty());
}

TEST_F(PlannedEnd, EndsActorsThatNoOtherHolds) {
  const ActorId actor = make_actor(1);
  acknowledge(actor);
  step(AwaitSubmitted{});
  ASSERT_TRUE(done());
  ASSERT_EQ(to_head<EndActor>().size(), 1u);
  EXPECT_FALSE(to_head<EndActor>()[0].kill);
}

TEST_F(PlannedEnd, FinishesRunningNonRetryableTask) {
  SubmitTask once = task(7);
  once.max_retries = 0;
  const TaskId running = submit(once);
  slot(1, 20);
  step(HandOver{{core_.ref_of(result(running))}, ProcessId::of(99), NodeId::of(2)});
  ASSERT_EQ(commanded<HandedOver>().size(), 1u);
  EXPECT_TRUE(commanded<HandedOver>()[0].tasks.empty());
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
}

TEST_F(PlannedEnd, HandedOver_WaitingThreadFetchesFromNewOwner) {
  const TaskId given = submit(task(7));
  step(WantObject{result(given), false});
  EXPECT_TRUE(to_agent<FetchObjectRequest>().empty());
  step(HandOver{{core_.ref_of(result(given))}, ProcessId::of(99), NodeId::of(2)});
  ASSERT_EQ(commanded<HandedOver>().size(), 1u);
  EXPECT_EQ(commanded<HandedOver>()[0].tasks.size(), 1u);
  const auto fetched = to_agent<FetchObjectRequest>();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(fetched[0].ref.owner, ProcessId::of(99));
}

TEST_F(PlannedEnd, CallAfterKill_FailsAtOnce) {
  const ActorId actor = make_actor(1);
  actor_alive(actor, 30, 1);
  step(KillActor{actor, true});
  EXPECT_EQ(to_head<EndActor>().size(), 1u);
  const TaskId late = call(actor);
  EXPECT_EQ(state(result(late)), "error");
  EXPECT_EQ(error(result(late)).kind, ErrorKind::actor_died);
  EXPECT_TRUE(calls_at(30).empty());
}

TEST_F(PlannedEnd, LastHandleReleased_StreamCloses) {
  const ActorId actor = make_actor(1);
  actor_alive(actor, 30, 1);
  const TaskId pending = call(actor);
  reply_value(30, "result");
  release(result(pending));
  release(handle_id(actor));
  const auto held = to_executor<ReplyClaimed>();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_TRUE(held[0].closes);
}

}  // namespace
}  // namespace mobula::internal::client
