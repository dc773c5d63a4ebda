// Subscriptions: one report per end of an object, whatever the end is.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

constexpr std::uint64_t sink = 7;

class Subscriptions : public SmallClient {
 protected:
  void subscribe(ObjectId object, std::uint64_t token = 1, bool fetch_local = true,
                 bool held = false) {
    step(SubscribeObject{object, sink, token, fetch_local, held});
    count();
  }
  // As step(), counting reports.
  void take(Event event) {
    step(std::move(event));
    count();
  }
  void count() {
    for (const auto& each : commanded<ObjectReported>()) tokens.push_back(each.token);
  }
  // A submitted task of executor 20, with its result.
  ObjectId sent_task(std::int32_t max_retries = 3) {
    SubmitTask given = task(7);
    given.max_retries = max_retries;
    const ObjectId object = result(submit(given));
    slot(3, 20);
    return object;
  }
  void reply_stored(NodeId at) {
    CallReply answer;
    answer.results.push_back(stored(at));
    reply(20, answer);
    count();
  }
  void fetched(ObjectId object, std::uint64_t fetch) {
    FetchObjectReply read;
    read.object = object;
    read.fetch = fetch;
    read.location = {4, 4096, 1 << 20};
    take(ReceivedFromAgent{read});
  }

  std::vector<std::uint64_t> tokens;  // reported so far
  using Tokens = std::vector<std::uint64_t>;
};

TEST_F(Subscriptions, ResultArrives_IsReportedOnce) {
  const ObjectId object = sent_task();
  subscribe(object);
  EXPECT_EQ(tokens, Tokens());
  reply_value(20, "v");
  count();
  EXPECT_EQ(tokens, Tokens{1});
  take(Tick{});
  EXPECT_EQ(tokens, Tokens{1});
}

TEST_F(Subscriptions, ReadyBefore_IsReportedAtOnce) {
  step(PutInline{ObjectId::of(5), value("v")});
  subscribe(ObjectId::of(5));
  EXPECT_EQ(tokens, Tokens{1});
  release(ObjectId::of(5));
  EXPECT_TRUE(core_.empty());
}

TEST_F(Subscriptions, OneObjectTwice_IsReportedForEachToken) {
  const ObjectId object = sent_task();
  subscribe(object, 1);
  subscribe(object, 2);
  reply_value(20, "v");
  count();
  EXPECT_EQ(tokens, (Tokens{1, 2}));
}

TEST_F(Subscriptions, TaskThrows_ErrorIsReported) {
  const ObjectId object = sent_task();
  subscribe(object);
  reply_exception(20);
  count();
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(state(object), "error");
}

TEST_F(Subscriptions, TaskCancelled_IsReported) {
  const ObjectId object = result(submit());
  subscribe(object);
  take(CancelObject{object});
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(state(object), "error");
}

TEST_F(Subscriptions, AttemptFails_OnlyTheLastIsReported) {
  const ObjectId object = sent_task(1);
  subscribe(object);
  slot_executor_ends(3, 20, EndKind::signalled);
  count();
  EXPECT_EQ(tokens, Tokens()) << "the task is retried";
  pass(10s);
  slot(3, 21, 1);
  ASSERT_EQ(calls_at(21).size(), 1u);
  slot_executor_ends(3, 21, EndKind::signalled);
  count();
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(error(object).kind, ErrorKind::worker_crashed);
}

TEST_F(Subscriptions, ActorDies_IsReported) {
  const ActorId actor = make_actor(3);
  actor_alive(actor, 30, 1);
  const ObjectId object = result(call(actor));
  subscribe(object);
  ActorChanged dead;
  dead.actor = actor;
  dead.state = ActorState::dead;
  dead.version = 2;
  take(ReceivedFromAgent{FromHead{dead}});
  take(StreamEnded{ProcessId::of(30)});
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(error(object).kind, ErrorKind::actor_died);
}

TEST_F(Subscriptions, OwnerLost_IsReported) {
  const RefRecord ref = foreign(60);
  step(AdoptRef{ref});
  subscribe(ref.object);
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u) << "only the owner knows when it is ready";
  FetchObjectReply lost;
  lost.object = ref.object;
  lost.fetch = to_agent<FetchObjectRequest>().front().fetch;
  lost.failure = failure(ErrorCode::unavailable, "the owner exited");
  take(ReceivedFromAgent{lost});
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(error(ref.object).kind, ErrorKind::object_lost);
}

TEST_F(Subscriptions, StoredElsewhere_IsReportedAfterTheFetch) {
  const ObjectId object = sent_task();
  subscribe(object);
  reply_stored(NodeId::of(2));
  EXPECT_EQ(tokens, Tokens());
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  fetched(object, to_agent<FetchObjectRequest>().front().fetch);
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(core_.object(object)->wants, 0) << "the store may move the bytes again";
}

TEST_F(Subscriptions, StoredHere_IsReportedWithoutAFetch) {
  const ObjectId object = sent_task();
  subscribe(object);
  reply_stored(node());
  EXPECT_TRUE(to_agent<FetchObjectRequest>().empty());
  EXPECT_EQ(tokens, Tokens{1});
}

TEST_F(Subscriptions, WithoutFetchLocal_NothingIsFetched) {
  const ObjectId object = sent_task();
  subscribe(object, 1, false);
  reply_stored(NodeId::of(2));
  EXPECT_TRUE(to_agent<FetchObjectRequest>().empty());
  EXPECT_EQ(tokens, Tokens{1});
}

TEST_F(Subscriptions, Held_KeepsTheBytesUntilTheShellReleases) {
  const ObjectId object = sent_task();
  subscribe(object, 1, true, true);
  release(object);
  reply_stored(node());
  EXPECT_EQ(tokens, Tokens()) << "a reader would have to fetch";
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  fetched(object, to_agent<FetchObjectRequest>().front().fetch);
  EXPECT_EQ(tokens, Tokens{1});
  ASSERT_NE(core_.object(object), nullptr);
  EXPECT_EQ(core_.object(object)->wants, 1);
  step(UnwantObject{object});
  step(ReleaseRef{object});
  EXPECT_EQ(core_.object(object), nullptr);
}

// The first fetch finds the bytes lost, and the task runs again.
TEST_F(Subscriptions, LostAndRecomputed_IsReportedOnce) {
  const ObjectId object = sent_task();
  subscribe(object);
  reply_stored(NodeId::of(2));
  FetchObjectReply lost;
  lost.object = object;
  lost.fetch = to_agent<FetchObjectRequest>().front().fetch;
  lost.failure = failure(ErrorCode::unavailable, "the node died");
  take(ReceivedFromAgent{lost});
  EXPECT_EQ(tokens, Tokens());
  reply_stored(node());
  EXPECT_EQ(tokens, Tokens{1});
}

TEST_F(Subscriptions, LastRefReleased_IsStillReported) {
  const ObjectId object = sent_task();
  subscribe(object);
  release(object);
  reply_value(20, "v");
  count();
  EXPECT_EQ(tokens, Tokens{1});
  EXPECT_EQ(core_.object(object), nullptr) << "the subscription held the last ref";
}

TEST_F(Subscriptions, Removed_IsNotReported) {
  const ObjectId object = sent_task();
  subscribe(object, 1);
  subscribe(object, 2);
  subscribe(object, 3);
  step(UnsubscribeObject{object, sink, 2, false});
  step(UnsubscribeObject{object, sink + 1, 0, true});
  reply_value(20, "v");
  count();
  EXPECT_EQ(tokens, (Tokens{1, 3}));
}

TEST_F(Subscriptions, AllRemoved_ReleaseTheirRefs) {
  const ObjectId object = sent_task();
  subscribe(object, 1);
  subscribe(object, 2);
  EXPECT_EQ(core_.object(object)->refs, 3);
  step(UnsubscribeObject{object, sink, 0, true});
  EXPECT_EQ(core_.object(object)->refs, 1);
}

// Another process finishes the task, and this one has to request the result.
TEST_F(Subscriptions, TaskHandedOver_ResultIsRequested) {
  const ObjectId object = result(submit());
  subscribe(object);
  step(HandOver{{core_.ref_of(object)}, ProcessId::of(60), NodeId::of(2)});
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  fetched(object, to_agent<FetchObjectRequest>().front().fetch);
  EXPECT_EQ(tokens, Tokens{1});
}

TEST_F(Subscriptions, AgentRestarts_BorrowedRefIsRequestedAgain) {
  const RefRecord ref = foreign(60);
  step(AdoptRef{ref});
  subscribe(ref.object);
  step(AgentLost{});
  StartJob job;
  job.job = JobId::of(1);
  take(Attached{node(), ProcessId::of(10), job});
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  fetched(ref.object, to_agent<FetchObjectRequest>().front().fetch);
  EXPECT_EQ(tokens, Tokens{1});
}

TEST_F(Subscriptions, QueuedTasks_StayCompact) {
  std::vector<ObjectId> objects;
  for (std::uint64_t i = 1; i <= 200; ++i) objects.push_back(result(submit(task(1000 + i))));
  const auto before = core_.sizes();
  for (std::size_t i = 0; i < objects.size(); ++i) subscribe(objects[i], i);
  EXPECT_EQ(core_.sizes().objects, before.objects);
  for (const ObjectId each : objects) take(CancelObject{each});
  EXPECT_EQ(tokens.size(), objects.size());
}

}  // namespace
}  // namespace mobula::internal::client
