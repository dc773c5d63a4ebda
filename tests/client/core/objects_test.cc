// References and values: holds, lineage, and their messages to the agent.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class Objects : public SmallClient {
 protected:
  using SmallClient::SmallClient;
  // A result of 1 MB on node `at`.
  TaskId stored_result(NodeId at, std::int32_t max_retries = 3) {
    SubmitTask given = task(7);
    given.max_retries = max_retries;
    const TaskId id = submit(given);
    slot(3, 20);
    CallReply answer;
    answer.results.push_back(stored(at));
    reply(20, answer);
    return id;
  }
  // A large value that a thread put: written and sealed.
  ObjectId put_large(std::uint64_t number, std::uint64_t slab, RefRecords contained = {}) {
    const ObjectId object = ObjectId::of(number);
    step(ReserveSpace{object, 1 << 20, ProcessId::of(1), node()});
    ReserveObjectReply space;
    space.object = object;
    space.location = {slab, 4096, 1 << 20};
    step(ReceivedFromAgent{space});
    step(ValueWritten{object, false, std::move(contained)});
    step(ReceivedFromAgent{SealObjectReply{object}});
    return object;
  }
  // The agent reserves memory for the value of an escaped object, and seals it.
  void seal_escaped(ObjectId object) {
    ReserveObjectReply space;
    space.object = object;
    space.location = {1, 4096, core_.object(object)->value->size_bytes};
    step(ReceivedFromAgent{space});
    step(ValueWritten{object, false, {}});
    step(ReceivedFromAgent{SealObjectReply{object}});
  }
  void new_agent() {
    step(AgentLost{});
    StartJob job;
    job.job = JobId::of(1);
    step(Attached{node(), ProcessId::of(10), job});
  }
};

using Lineage = Objects;
using Holds = Objects;
using LostStores = Objects;

// Tensor elements stay in the process, and only their refs are counted.
class KeptTensors : public Objects {
 protected:
  static ObjectId tensor() { return ObjectId::of(77); }
  static RefRecord ref() {
    RefRecord made{tensor(), node(), ProcessId::of(1), {}};
    made.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
    return made;
  }
  void keep() { step(KeepTensor{ref()}); }
  // A small value that contains them.
  ObjectId put_value_of_it() {
    ValueRecord record = value("with a tensor");
    record.contained = {ref()};
    step(PutInline{ObjectId::of(5), record});
    return ObjectId::of(5);
  }
  std::size_t unneeded() const { return commanded<TensorUnneeded>().size(); }
};

TEST_F(KeptTensors, LastRefReleased_IsUnneeded) {
  keep();
  EXPECT_EQ(core_.ref_of(tensor()), ref());
  release(tensor());
  EXPECT_EQ(unneeded(), 1u);
  EXPECT_TRUE(core_.empty());
}

TEST_F(KeptTensors, Exported_StoresNothing) {
  keep();
  const ObjectId value = put_value_of_it();
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  EXPECT_TRUE(to_agent<ReserveObjectRequest>().empty());
  release(tensor());
  EXPECT_EQ(unneeded(), 0u) << "the value refers to them";
  release(value);
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
  EXPECT_EQ(unneeded(), 0u) << "others may";
  step(ReceivedFromAgent{ExportReleased{tensor()}});
  EXPECT_EQ(unneeded(), 1u);
  EXPECT_TRUE(core_.empty());
}

TEST_F(KeptTensors, RefTakenElsewhere_IsKept) {
  keep();
  const ObjectId value = put_value_of_it();
  release(tensor());
  release(value);
  // A receiver sends it back.
  step(AdoptRef{ref()});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
  step(ReceivedFromAgent{ExportReleased{tensor()}});
  EXPECT_EQ(unneeded(), 0u) << "said before the agent heard of it";
}

TEST_F(KeptTensors, AgentRestarted_KeptTensorsSurvive) {
  keep();
  put_value_of_it();
  new_agent();
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  EXPECT_EQ(unneeded(), 0u);
  EXPECT_EQ(core_.ref_of(tensor()).tensor, ref().tensor);
}

TEST_F(KeptTensors, JobOver_FreesKeptTensors) {
  core_.step(now_, ReceivedFromAgent{FromHead{StartJobReply{}}}, out);
  keep();
  const ObjectId value = put_value_of_it();
  release(tensor());
  release(value);
  StartJob job;
  job.job = JobId::of(1);
  step(Attached{node(), ProcessId::of(10), job});
  RequestRejected refused;
  refused.job = JobId::of(1);
  head(refused);
  EXPECT_EQ(unneeded(), 1u);
}

TEST_F(Lineage, RecomputesLostResult) {
  const TaskId id = stored_result(NodeId::of(2));
  step(ReceivedFromAgent{ObjectGone{result(id), "node 2 died"}});
  EXPECT_EQ(state(result(id)), "pending");
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.task, id);
  EXPECT_EQ(calls_at(20)[0].call.attempt, 1u);
}

// Readers of other processes wait at the home, and the second value is not in the store.
TEST_F(Lineage, RecomputedInline_StoredForReadersAtHome) {
  const TaskId id = stored_result(NodeId::of(2));
  step(ReceivedFromAgent{ObjectGone{result(id), "node 2 died"}});
  reply_value(20, "again");
  EXPECT_EQ(to_agent<ReserveObjectRequest>().at(0).object, result(id));
}

TEST_F(Lineage, NoRetries_ResultIsLostWithCause) {
  const TaskId id = stored_result(NodeId::of(2), 0);
  step(ReceivedFromAgent{ObjectGone{result(id), "node 2 died"}});
  EXPECT_EQ(error(result(id)).kind, ErrorKind::object_lost);
  EXPECT_NE(error(result(id)).text.find("node 2 died"), std::string::npos);
}

TEST_F(Lineage, RecomputesLostArgumentsFirst) {
  const TaskId first = stored_result(NodeId::of(2));
  SubmitTask second = task(8);
  second.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  const TaskId id = submit(second);
  CallReply answer;
  answer.results.push_back(stored(NodeId::of(2)));
  reply(20, answer);
  release(result(first));  // the lineage of the second keeps it
  EXPECT_EQ(state(result(first)), "value");
  step(ReceivedFromAgent{ObjectGone{result(first), "node 2 died"}});
  step(ReceivedFromAgent{ObjectGone{result(id), "node 2 died"}});
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.task, first);
  reply_value(20, "again");
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.task, id);
}

TEST_F(Lineage, ArgumentLost_QueuedTaskWaitsForIt) {
  const TaskId first = stored_result(NodeId::of(2));
  slot_executor_ends(3, 20, EndKind::exited);
  SubmitTask second = task(8);
  second.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  const TaskId id = submit(second);  // its argument is ready, but no slot is
  step(ReceivedFromAgent{ObjectGone{result(first), "node 2 died"}});
  slot(3, 21, 1);
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.task, first);
  reply_value(21, "again");
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.task, id);
  EXPECT_EQ(calls_at(21)[0].call.arguments->at(0).value.size_bytes, value("again").size_bytes);
}

TEST_F(Lineage, ArgumentLostForGood_QueuedTaskFails) {
  const TaskId first = stored_result(NodeId::of(2), 0);
  slot_executor_ends(3, 20, EndKind::exited);
  SubmitTask second = task(8);
  second.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  const TaskId id = submit(second);
  step(ReceivedFromAgent{ObjectGone{result(first), "node 2 died"}});
  EXPECT_EQ(error(result(first)).kind, ErrorKind::object_lost);
  slot(3, 21, 1);
  EXPECT_TRUE(calls_at(21).empty());
  EXPECT_EQ(error(result(id)).kind, ErrorKind::object_lost);
}

TEST_F(Lineage, ArgumentLost_ActorCallWaitsForIt) {
  const TaskId first = stored_result(NodeId::of(2));
  const ActorId actor = make_actor(5);
  SubmitActorCall call_of_actor;
  call_of_actor.call.form.edit().kind = CallKind::actor_call;
  call_of_actor.call.task = TaskId::of(8);
  call_of_actor.call.form.edit().actor = actor;
  call_of_actor.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  step(call_of_actor);
  const TaskId id = call_of_actor.call.task;
  step(ReceivedFromAgent{ObjectGone{result(first), "node 2 died"}});
  actor_alive(actor, 40, 1);
  EXPECT_TRUE(calls_at(40).empty());
  ASSERT_EQ(calls_at(20).size(), 1u);
  reply_value(20, "again");
  ASSERT_EQ(calls_at(40).size(), 1u);
  EXPECT_EQ(calls_at(40)[0].call.task, id);
}

TEST_F(Lineage, EndsWithLastRef) {
  const TaskId id = stored_result(NodeId::of(2));
  EXPECT_EQ(core_.sizes().tasks, 1u);
  release(result(id));
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
  EXPECT_EQ(core_.sizes().tasks, 0u);
  EXPECT_EQ(core_.sizes().objects, 0u);
}

ClientOptions little_lineage() {
  ClientOptions options;
  options.max_lineage_bytes = 4 << 10;
  return options;
}

class BoundedLineage : public Objects {
 protected:
  BoundedLineage() : Objects(little_lineage()) {}
  // Tasks 101 to 100 + `count`, each with a stored result and 1,000 bytes of argument.
  std::vector<TaskId> finished(int count) {
    std::vector<TaskId> ids;
    slot(3, 20);
    for (int i = 1; i <= count; ++i) {
      SubmitTask given = task(100 + static_cast<std::uint64_t>(i));
      Argument argument;
      argument.value = value(std::string(1000, 'x'));
      given.call.arguments.edit().push_back(argument);
      ids.push_back(submit(given));
      slot(3, 20);
      CallReply answer;
      answer.results.push_back(stored(NodeId::of(2)));
      reply(20, answer);
      if (!commanded<Warn>().empty()) ++warnings_;
    }
    return ids;
  }
  int warnings_ = 0;
};

TEST_F(BoundedLineage, ForgetsOldestAndWarnsOnce) {
  const auto ids = finished(10);
  EXPECT_LE(core_.lineage_bytes(), 4 << 10);
  EXPECT_GT(core_.lineage_bytes(), 2 << 10);
  EXPECT_EQ(warnings_, 1);
  step(ReceivedFromAgent{ObjectGone{result(ids.front()), "node 2 died"}});
  EXPECT_EQ(error(result(ids.front())).kind, ErrorKind::object_lost);
  EXPECT_NE(error(result(ids.front())).text.find("lineage is bounded"), std::string::npos);
  step(ReceivedFromAgent{ObjectGone{result(ids.back()), "node 2 died"}});
  EXPECT_EQ(state(result(ids.back())), "pending");
}

TEST_F(BoundedLineage, CountsPresentLineage) {
  const auto ids = finished(2);
  const auto both = core_.lineage_bytes();
  EXPECT_GT(both, 2000);
  release(result(ids[0]));
  EXPECT_EQ(core_.lineage_bytes(), both / 2);
  step(ReceivedFromAgent{ObjectGone{result(ids[1]), "node 2 died"}});  // it runs again
  EXPECT_EQ(core_.lineage_bytes(), 0);
  EXPECT_EQ(warnings_, 0);
}

TEST_F(Holds, HoldsBorrowedRefOnceUntilLastRelease) {
  step(AdoptRef{foreign(1)});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
  step(RetainRef{ObjectId::of(1)});
  EXPECT_TRUE(to_agent<HoldObjectRequest>().empty());
  EXPECT_TRUE(core_.holds_unconfirmed({foreign(1)}));
  step(ReceivedFromAgent{HoldObjectReply{ObjectId::of(1)}});
  EXPECT_FALSE(core_.holds_unconfirmed({foreign(1)}));
  release(ObjectId::of(1));
  EXPECT_TRUE(to_agent<ReleaseObject>().empty());
  release(ObjectId::of(1));
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
}

// The fast path without a step never skips a message that is due.
TEST_F(Holds, CountsQuietlyOnlyWithoutSideEffects) {
  EXPECT_FALSE(core_.retain_quietly(ObjectId::of(1))) << "not known";
  EXPECT_FALSE(core_.release_quietly(ObjectId::of(1)));
  step(AdoptRef{foreign(1)});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
  EXPECT_FALSE(core_.release_quietly(ObjectId::of(1))) << "the last one";
  EXPECT_TRUE(core_.retain_quietly(ObjectId::of(1)));
  EXPECT_TRUE(core_.release_quietly(ObjectId::of(1)));
  release(ObjectId::of(1));
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u) << "two were taken, two given back";
  EXPECT_FALSE(core_.retain_quietly(ObjectId::of(1))) << "it has left";
}

TEST_F(Holds, WantsQuietlyOnlyPresentOrPending) {
  EXPECT_FALSE(core_.want_quietly(ObjectId::of(1))) << "not known";
  EXPECT_FALSE(core_.unwant_quietly(ObjectId::of(1)));
  step(AdoptRef{foreign(1)});
  EXPECT_FALSE(core_.want_quietly(ObjectId::of(1))) << "it has to be fetched";
  step(WantObject{ObjectId::of(1)});
  EXPECT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  EXPECT_TRUE(core_.want_quietly(ObjectId::of(1))) << "it is on its way";
  EXPECT_TRUE(core_.unwant_quietly(ObjectId::of(1)));
  EXPECT_TRUE(core_.unwant_quietly(ObjectId::of(1)));
  EXPECT_FALSE(core_.unwant_quietly(ObjectId::of(1))) << "the last request was withdrawn before";

  const TaskId id = submit();
  EXPECT_TRUE(core_.want_quietly(result(id)))
      << "it is being made, and is fetched when it is there";
  slot(3, 20);
  CallReply answer;
  answer.results.push_back(stored(NodeId::of(2)));
  reply(20, answer);
  EXPECT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
}

// The agent awaits the return of the location, which follows the last view.
TEST_F(Holds, PendingUnpin_LastReaderReplies) {
  const ObjectId object = ObjectId::of(1);
  step(AdoptRef{foreign(1)});
  step(WantObject{object});
  const auto fetch = to_agent<FetchObjectRequest>().at(0).fetch;
  FetchObjectReply readable;
  readable.object = object;
  readable.fetch = fetch;
  readable.location = {1, 0, 1 << 20};
  step(ReceivedFromAgent{readable});
  EXPECT_TRUE(core_.want_quietly(object));
  step(ReceivedFromAgent{UnpinRequest{object, fetch}});
  EXPECT_TRUE(to_agent<UnpinReply>().empty()) << "two look";
  EXPECT_TRUE(core_.unwant_quietly(object));
  EXPECT_FALSE(core_.unwant_quietly(object)) << "the last one";
  step(UnwantObject{object});
  EXPECT_EQ(to_agent<UnpinReply>().size(), 1u);
}

TEST_F(Holds, ReleasedOwnObject_RetainNotifiesHome) {
  const ObjectId object = ObjectId::of(5);
  ValueRecord value = SmallClient::value("shared");
  step(PutInline{object, value});
  ValueRecord outer = SmallClient::value("with a ref");
  outer.contained.push_back(core_.ref_of(object));
  step(PutInline{ObjectId::of(6), outer});
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  seal_escaped(object);
  release(ObjectId::of(6));
  release(object);
  ASSERT_EQ(to_agent<ReleaseObject>().size(), 1u)
      << "this process needs it no more, other processes may";
  EXPECT_FALSE(core_.retain_quietly(object)) << "its home has to hear of it";
  step(RetainRef{object});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
}

TEST_F(Holds, ClaimsReplyWhenContentsAreHeld) {
  submit();
  slot(3, 20);
  ValueRecord value = SmallClient::value("with a ref");
  value.contained.push_back(foreign(1));
  CallReply answer;
  answer.results.push_back(value);
  reply(20, answer);
  EXPECT_TRUE(to_executor<ReplyClaimed>().empty());
  step(ReceivedFromAgent{HoldObjectReply{ObjectId::of(1)}});
  EXPECT_EQ(to_executor<ReplyClaimed>().size(), 1u);
}

TEST_F(Holds, EscapedValue_StaysWhileHeld) {
  step(PutInline{ObjectId::of(1), value("small")});
  ValueRecord outer = value("outer");
  outer.contained.push_back(core_.ref_of(ObjectId::of(1)));
  SubmitTask given = task(7);
  Argument argument;
  argument.value = outer;
  given.call.arguments.edit().push_back(argument);
  step(given);
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  EXPECT_EQ(to_agent<ReserveObjectRequest>().size(), 1u);
  ReserveObjectReply space;
  space.object = ObjectId::of(1);
  space.location = {3, 0, 5};
  step(ReceivedFromAgent{space});
  ASSERT_EQ(commanded<SpaceReserved>().size(), 1u);
  EXPECT_EQ(commanded<SpaceReserved>()[0].payload.size(), 5u);
  EXPECT_TRUE(core_.storing({core_.ref_of(ObjectId::of(1))}));
  step(ValueWritten{ObjectId::of(1), false, {}});
  step(ReceivedFromAgent{SealObjectReply{ObjectId::of(1)}});
  EXPECT_FALSE(core_.storing({core_.ref_of(ObjectId::of(1))}));
  EXPECT_FALSE(commanded<ObjectChanged>().empty()) << "waiters for the store are notified";
  slot(3, 20);
  reply_value(20, "done");
  release(ObjectId::of(1));
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
  EXPECT_EQ(state(ObjectId::of(1)), "value");
  step(ReceivedFromAgent{ExportReleased{ObjectId::of(1)}});
  EXPECT_EQ(state(ObjectId::of(1)), "unknown");
}

TEST_F(Holds, ResultOfEarlierAttempt_SealedAtNewHome) {
  const ObjectId object = ObjectId::of(1);
  step(ReserveSpace{object, 1 << 20, ProcessId::of(50), NodeId::of(2)});
  ReserveObjectReply there;
  there.object = object;
  there.failure = failure(ErrorCode::already_exists, "object is already sealed");
  step(ReceivedFromAgent{there});
  EXPECT_TRUE(commanded<SpaceReserved>().empty()) << "its owner does not hold it yet";
  ASSERT_EQ(to_agent<SealObjectRequest>().size(), 1u);
  EXPECT_EQ(to_agent<SealObjectRequest>()[0].owner, ProcessId::of(50));
  EXPECT_EQ(to_agent<SealObjectRequest>()[0].home, NodeId::of(2));
  step(ReceivedFromAgent{SealObjectReply{object}});
  ASSERT_EQ(commanded<SpaceReserved>().size(), 1u);
  EXPECT_EQ(commanded<SpaceReserved>()[0].failure->code, ErrorCode::already_exists);
  EXPECT_EQ(commanded<ValueSealed>().size(), 1u);
  EXPECT_FALSE(core_.writing());
}

TEST_F(LostStores, NewAgent_StoresWrittenObjectsAgain) {
  const ObjectId object = put_large(1, 3);
  new_agent();
  ASSERT_EQ(to_agent<ReserveObjectRequest>().size(), 1u);
  EXPECT_EQ(to_agent<ReserveObjectRequest>()[0].object, object);
  // A reader waits until the value is stored again.
  step(WantObject{object});
  EXPECT_TRUE(to_agent<FetchObjectRequest>().empty());
  ReserveObjectReply space;
  space.object = object;
  space.location = {8, 0, 1 << 20};
  step(ReceivedFromAgent{space});
  ASSERT_EQ(commanded<SpaceReserved>().size(), 1u);
  EXPECT_EQ(commanded<SpaceReserved>()[0].copy_of, (SlabRange{3, 4096, 1 << 20}));
  step(ValueWritten{object, false, {}});
  ASSERT_EQ(to_agent<SealObjectRequest>().size(), 1u);
  EXPECT_EQ(to_agent<SealObjectRequest>()[0].owner, ProcessId::of(1));
  step(ReceivedFromAgent{SealObjectReply{object}});
  EXPECT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  EXPECT_FALSE(core_.writing());
  // A second loss copies it from its present location.
  new_agent();
  step(ReceivedFromAgent{ReserveObjectReply{object, {9, 0, 1 << 20}, false, 0, {}}});
  ASSERT_EQ(commanded<SpaceReserved>().size(), 1u);
  EXPECT_EQ(commanded<SpaceReserved>()[0].copy_of, (SlabRange{8, 0, 1 << 20}));
}

using ObjectLocations = Objects;

TEST_F(ObjectLocations, UnpinsWhenLastReaderReleases) {
  const ObjectId object = put_large(1, 3);
  step(WantObject{object});
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  FetchObjectReply readable;
  readable.object = object;
  readable.location = {3, 4096, 1 << 20};
  readable.fetch = to_agent<FetchObjectRequest>()[0].fetch;
  step(ReceivedFromAgent{readable});
  step(ReceivedFromAgent{UnpinRequest{object, readable.fetch}});
  EXPECT_TRUE(to_agent<UnpinReply>().empty());
  EXPECT_TRUE(core_.settled(object));
  step(UnwantObject{object});
  ASSERT_EQ(to_agent<UnpinReply>().size(), 1u);
  EXPECT_EQ(to_agent<UnpinReply>()[0].fetch, readable.fetch);
  EXPECT_EQ(commanded<DropLocation>().size(), 1u);
  EXPECT_FALSE(core_.settled(object));
  step(WantObject{object});
  ASSERT_EQ(to_agent<FetchObjectRequest>().size(), 1u);
  EXPECT_NE(to_agent<FetchObjectRequest>()[0].fetch, readable.fetch);
}

TEST_F(ObjectLocations, Unread_UnpinsOnlyOnRequest) {
  const ObjectId object = put_large(1, 3);
  step(WantObject{object});
  FetchObjectReply readable;
  readable.object = object;
  readable.location = {3, 4096, 1 << 20};
  readable.fetch = to_agent<FetchObjectRequest>().at(0).fetch;
  step(ReceivedFromAgent{readable});
  step(UnwantObject{object});
  EXPECT_TRUE(to_agent<UnpinReply>().empty());
  step(WantObject{object});
  EXPECT_TRUE(to_agent<FetchObjectRequest>().empty()) << "it is here";
  step(UnwantObject{object});
  step(ReceivedFromAgent{UnpinRequest{object, readable.fetch}});
  EXPECT_EQ(to_agent<UnpinReply>().size(), 1u);
}

TEST_F(ObjectLocations, IgnoresReplyToCancelledFetch) {
  const RefRecord ref{ObjectId::of(7), NodeId::of(2), ProcessId::of(50), {}};
  step(AdoptRef{ref});
  step(WantObject{ref.object});
  FetchObjectReply early;
  early.object = ref.object;
  early.location = {3, 0, 100};
  early.fetch = to_agent<FetchObjectRequest>().at(0).fetch;
  step(ReleaseRef{ref.object});
  step(AdoptRef{ref});
  step(WantObject{ref.object});
  const std::uint64_t late = to_agent<FetchObjectRequest>().at(0).fetch;
  step(ReceivedFromAgent{early});
  EXPECT_FALSE(core_.settled(ref.object));
  early.fetch = late;
  step(ReceivedFromAgent{early});
  EXPECT_TRUE(core_.settled(ref.object));
}

TEST_F(ObjectLocations, UnpinnedObject_IsNotCopiedButLost) {
  const ObjectId object = put_large(1, 3);
  step(ReceivedFromAgent{UnpinRequest{object, 0}});
  EXPECT_EQ(to_agent<UnpinReply>().size(), 1u);
  new_agent();
  // The error is stored, for executors that await the object at their agents.
  for (const auto& reserved : to_agent<ReserveObjectRequest>())
    EXPECT_LT(reserved.size_bytes, 1 << 20);
  EXPECT_TRUE(core_.settled(object)) << "the object is settled with an error";
}

TEST_F(LostStores, KeepsContainedRefsUntilStored) {
  step(PutInline{ObjectId::of(1), value("small")});
  const RefRecord inner = core_.ref_of(ObjectId::of(1));
  const ObjectId outer = put_large(2, 3, {inner});
  step(ReceivedFromAgent{ReserveObjectReply{inner.object, {4, 0, 5}, false, 0, {}}});
  step(ValueWritten{inner.object, false, {}});
  step(ReceivedFromAgent{SealObjectReply{inner.object}});
  release(inner.object);  // only the store holds it now
  new_agent();
  step(ReceivedFromAgent{ReserveObjectReply{inner.object, {8, 0, 5}, false, 0, {}}});
  step(ValueWritten{inner.object, false, {}});
  step(ReceivedFromAgent{SealObjectReply{inner.object}});
  EXPECT_TRUE(to_agent<ReleaseObject>().empty());
  step(ReceivedFromAgent{ReserveObjectReply{outer, {9, 0, 1 << 20}, false, 0, {}}});
  step(ValueWritten{outer, false, {inner}});
  EXPECT_EQ(to_agent<SealObjectRequest>().at(0).contained, RefRecords{inner});
  step(ReceivedFromAgent{SealObjectReply{outer}});
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
}

TEST_F(LostStores, WriterActive_LosesNothing) {
  const ObjectId object = ObjectId::of(1);
  step(ReserveSpace{object, 1 << 20, ProcessId::of(1), node()});
  step(ReceivedFromAgent{ReserveObjectReply{object, {3, 0, 1 << 20}, false, 0, {}}});
  new_agent();
  EXPECT_TRUE(to_agent<ReserveObjectRequest>().empty());
  step(ValueWritten{object, false, {}});
  EXPECT_TRUE(to_agent<SealObjectRequest>().empty());
  EXPECT_EQ(to_agent<ReserveObjectRequest>().size(), 1u);
  EXPECT_EQ(state(object), "value");
  step(ReceivedFromAgent{ReserveObjectReply{object, {8, 0, 1 << 20}, false, 0, {}}});
  EXPECT_EQ(commanded<SpaceReserved>().at(0).copy_of.slab, 3u);
}

TEST_F(LostStores, Unreadable_IsLost) {
  const ObjectId object = put_large(1, 3);
  new_agent();
  step(ReceivedFromAgent{ReserveObjectReply{object, {8, 0, 1 << 20}, false, 0, {}}});
  step(ValueUnreadable{object});
  EXPECT_EQ(error(object).kind, ErrorKind::object_lost);
}

TEST_F(LostStores, RecomputesUnmappedResults) {
  const TaskId id = stored_result(node());
  new_agent();
  EXPECT_EQ(state(result(id)), "pending");
}

TEST_F(LostStores, HoldsForeignRefsAgain) {
  step(AdoptRef{foreign(1)});
  step(ReceivedFromAgent{HoldObjectReply{ObjectId::of(1)}});
  new_agent();
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::client
