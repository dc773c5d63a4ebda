// Tensor refs that other processes hold for this one, and refs that are never reported.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

// Elements of another process that arrive in calls and replies.
class BorrowedTensors : public SmallClient {
 protected:
  static ObjectId tensor() { return ObjectId::of(88); }
  static RefRecord ref(std::uint64_t owner = 40) {
    RefRecord made{tensor(), NodeId::of(2), ProcessId::of(owner), {}};
    made.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
    return made;
  }
  // The result of a call that an actor at process 40 answered with them.
  ObjectId answered() {
    actor_ = make_actor(4);
    actor_alive(actor_, 40, 1);
    return result(answer());
  }
  TaskId answer() {
    const TaskId id = call(actor_);
    CallReply said;
    ValueRecord with = value("with a tensor");
    with.contained = {ref()};
    said.results.push_back(with);
    reply(40, said);
    return id;
  }
  ActorId actor_;
};

TEST_F(BorrowedTensors, CallArguments_HeldByCaller) {
  step(BorrowRefs{{ref()}});
  EXPECT_TRUE(to_agent<HoldObjectRequest>().empty());
  EXPECT_TRUE(core_.retain_quietly(tensor())) << "a tensor of user code";
  release(tensor());
  release(tensor());
  EXPECT_TRUE(to_agent<ReleaseObject>().empty());
  step(EndBorrow{{tensor()}});
  EXPECT_TRUE(out.empty());
  EXPECT_TRUE(core_.empty());
}

TEST_F(BorrowedTensors, KeptByCall_HeldBeforeReply) {
  step(BorrowRefs{{ref()}});
  step(RetainRef{tensor()});
  release(tensor());
  step(EndBorrow{{tensor()}});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
  EXPECT_TRUE(core_.holds_unconfirmed({ref()}));
  step(ReceivedFromAgent{HoldObjectReply{tensor()}});
  EXPECT_FALSE(core_.holds_unconfirmed({ref()}));
  EXPECT_EQ(core_.held({ref()}), std::vector<ObjectId>{tensor()});
  release(tensor());
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
}

TEST_F(BorrowedTensors, TwoCalls_HeldWhenBothEnded) {
  step(BorrowRefs{{ref()}});
  step(BorrowRefs{{ref()}});
  release(tensor());
  step(EndBorrow{{tensor()}});
  EXPECT_TRUE(to_agent<HoldObjectRequest>().empty()) << "the other caller's hold stands";
  step(RetainRef{tensor()});
  release(tensor());
  step(EndBorrow{{tensor()}});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
}

TEST_F(BorrowedTensors, CallerDied_HoldsAtOnce) {
  step(BorrowRefs{{ref()}});
  step(ReceivedFromAgent{PeersDead{{ProcessId::of(99)}, {}}});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
  release(tensor());
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
  step(EndBorrow{{tensor()}});
  EXPECT_TRUE(core_.empty());
}

TEST_F(BorrowedTensors, NamesForwardedTensorsInReply) {
  step(BorrowRefs{{ref()}});
  SubmitTask given = task(7);
  Argument argument;
  argument.value = value("with a tensor");
  argument.value.contained = {ref()};
  given.call.arguments.edit().push_back(argument);
  step(given);
  EXPECT_EQ(core_.passed_on({ref()}), std::vector<ObjectId>{tensor()});
  release(result(given.call.task));
  release(tensor());
  step(CancelObject{result(given.call.task)});
  EXPECT_EQ(core_.passed_on({ref()}), std::vector<ObjectId>{tensor()}) << "until the loan ends";
}

TEST_F(BorrowedTensors, ReplyReleasedSoon_TakesNoHold) {
  const ObjectId made = answered();
  EXPECT_TRUE(to_agent<HoldObjectRequest>().empty());
  EXPECT_TRUE(to_executor<ReplyClaimed>().empty());
  release(made);
  EXPECT_TRUE(to_agent<ReleaseObject>().empty());
  ASSERT_EQ(to_executor<ReplyClaimed>().size(), 1u);
  EXPECT_TRUE(to_executor<ReplyClaimed>()[0].unheld);
}

TEST_F(BorrowedTensors, ReplyKept_HeldAfterDelay) {
  const ObjectId made = answered();
  ASSERT_TRUE(core_.next_deadline().has_value());
  pass(ClientOptions{}.hold_delay);
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
  EXPECT_TRUE(to_executor<ReplyClaimed>().empty());
  step(ReceivedFromAgent{HoldObjectReply{tensor()}});
  ASSERT_EQ(to_executor<ReplyClaimed>().size(), 1u);
  EXPECT_FALSE(to_executor<ReplyClaimed>()[0].unheld);
  release(made);
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
}

TEST_F(BorrowedTensors, ReplyKeptByCall_IsHeld) {
  const ObjectId made = answered();
  SubmitTask given = task(9);
  given.call.arguments.edit().push_back(by_ref(core_.ref_of(made)));
  submit(given);
  slot(3, 20);
  EXPECT_TRUE(to_agent<HoldObjectRequest>().empty());
  CallReply answer;
  answer.results.push_back(value("kept"));
  answer.kept = {tensor()};
  reply(20, answer);
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
}

TEST_F(BorrowedTensors, ReplyPinnedInValue_IsHeld) {
  answered();
  step(PinRefs{{ref()}});
  EXPECT_EQ(to_agent<HoldObjectRequest>().size(), 1u);
}

TEST_F(BorrowedTensors, ReleasesTwoRepliesWithoutHolds) {
  const ObjectId first = answered();
  const ObjectId second = result(answer());
  release(first);
  EXPECT_TRUE(to_executor<ReplyClaimed>().empty());
  release(second);
  ASSERT_EQ(to_executor<ReplyClaimed>().size(), 2u);
  EXPECT_TRUE(to_executor<ReplyClaimed>()[0].unheld && to_executor<ReplyClaimed>()[1].unheld);
}

TEST_F(BorrowedTensors, ExecutorDied_HoldsStayForAWhile) {
  const ObjectId made = answered();
  SubmitTask given = task(9);
  given.max_retries = 0;
  given.call.arguments.edit().push_back(by_ref(core_.ref_of(made)));
  submit(given);
  slot(3, 20);
  slot_executor_ends(3, 20, EndKind::exited);
  pass(ClientOptions{}.stream_drain_timeout);
  release(made);
  release(result(given.call.task));
  EXPECT_TRUE(to_agent<ReleaseObject>().empty())
      << "a process that received the refs from it may still register a hold";
  pass(ClientOptions{}.orphans_delay);
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
}

// Elements of this process that leave in its replies.
class GivenTensors : public SmallClient {
 protected:
  static ObjectId tensor() { return ObjectId::of(77); }
  static RefRecord ref() {
    RefRecord made{tensor(), node(), ProcessId(), {}};
    made.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
    return made;
  }
  void keep() { step(KeepTensor{ref()}); }
  std::size_t unneeded() const { return commanded<TensorUnneeded>().size(); }
};

TEST_F(GivenTensors, UnheldReply_ExportsNothing) {
  keep();
  step(PinRefs{{ref()}});
  EXPECT_TRUE(to_agent<ExportObject>().empty());
  release(tensor());
  step(UnpinRefs{{ref()}, true});
  EXPECT_TRUE(to_agent<ReleaseObject>().empty());
  EXPECT_EQ(unneeded(), 1u);
  EXPECT_TRUE(core_.empty());
}

TEST_F(GivenTensors, HeldReply_ExportsBeforeRelease) {
  keep();
  step(PinRefs{{ref()}});
  release(tensor());
  step(UnpinRefs{{ref()}, false});
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
  EXPECT_EQ(unneeded(), 0u);
}

TEST_F(GivenTensors, UnclaimedReply_ExportsAfterDelay) {
  keep();
  step(PinRefs{{ref()}});
  step(PinRefs{{ref()}});
  pass(ClientOptions{}.export_delay);
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  release(tensor());
  step(UnpinRefs{{ref()}, true});
  EXPECT_TRUE(out.empty());
  step(UnpinRefs{{ref()}, true});
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u)
      << "the object may have been requested in between";
}

}  // namespace
}  // namespace mobula::internal::client
