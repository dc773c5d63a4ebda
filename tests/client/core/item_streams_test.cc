// Streaming calls at their owner: items before the end of the call, the window, retries, errors,
// and consumers that end.
#include "client/core/streaming_client.h"

namespace mobula::internal::client {
namespace {

class ItemStreams : public StreamingClient {};

TEST_F(ItemStreams, ItemIsReadableBeforeCallEnds) {
  const TaskId made = stream();
  EXPECT_EQ(state(position_id(made, 0)), "pending");
  yield(0);
  EXPECT_EQ(refs(made, 0), (std::vector{item_id(made, 0), position_id(made, 1)}));
  EXPECT_EQ(text(item_id(made, 0)), "item 0");
  EXPECT_EQ(state(position_id(made, 1)), "pending");
}

TEST_F(ItemStreams, CallEnds_LastPositionIsTheEnd) {
  const TaskId made = stream();
  yield(0);
  end();
  EXPECT_FALSE(is_end(made, 0));
  EXPECT_TRUE(is_end(made, 1));
}

TEST_F(ItemStreams, NoItem_FirstPositionIsTheEnd) {
  const TaskId made = stream();
  end();
  EXPECT_TRUE(is_end(made, 0));
  release(position_id(made, 0));
  EXPECT_EQ(core_.sizes().objects, 0u);
}

TEST_F(ItemStreams, CallThrows_ItemsBeforeStayReadable) {
  const TaskId made = stream();
  yield(0);
  reply_exception(producer);
  EXPECT_EQ(text(item_id(made, 0)), "item 0");
  EXPECT_EQ(error(position_id(made, 1)).text, "thrown");
}

TEST_F(ItemStreams, ConsumerPassedItems_TheyAreReleased) {
  const TaskId made = stream();
  yield(0);
  yield(1);
  take(made, 0);
  EXPECT_EQ(state(item_id(made, 0)), "unknown");
  EXPECT_EQ(state(item_id(made, 1)), "value");
  take(made, 1);
  end();
  release(position_id(made, 2));
  EXPECT_EQ(core_.sizes().objects, 0u);
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(ItemStreams, WindowIsReportedInBatches) {
  const TaskId made = stream(4);
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  step(TakeItem{position_id(made, 0)});
  EXPECT_TRUE(to_executor<ItemsTaken>().empty());
  step(TakeItem{position_id(made, 1)});
  EXPECT_EQ(to_executor<ItemsTaken>(), (std::vector{ItemsTaken{1, 2}}));
}

TEST_F(ItemStreams, LargeItems_AreReportedBySize) {
  const TaskId made = stream(100);
  ValueRecord large = stored(node());
  large.size_bytes = stream_window_bytes / 2;
  yield(0, large);
  step(TakeItem{position_id(made, 0)});
  EXPECT_EQ(to_executor<ItemsTaken>(), (std::vector{ItemsTaken{1, 1}}));
}

TEST_F(ItemStreams, TwoConsumers_FastestMovesTheWindow) {
  const TaskId made = stream(1);
  yield(0);
  step(TakeItem{position_id(made, 0)});
  EXPECT_EQ(to_executor<ItemsTaken>(), (std::vector{ItemsTaken{1, 1}}));
  step(TakeItem{position_id(made, 0)});
  EXPECT_TRUE(to_executor<ItemsTaken>().empty());
  EXPECT_EQ(text(item_id(made, 0)), "item 0");
}

TEST_F(ItemStreams, PassedOn_HasNoWindow) {
  const TaskId made = stream(1);
  step(HandOver{{core_.ref_of(position_id(made, 0))}, ProcessId::of(60), NodeId::of(2)});
  EXPECT_EQ(to_executor<ItemsTaken>(), (std::vector{ItemsTaken{1, stream_without_window}}));
  yield(0);
  EXPECT_TRUE(to_executor<ItemsTaken>().empty());
}

// Streams that other processes read. The agent reports their progress.
class SharedStreams : public ItemStreams {
 protected:
  SharedStreams() {
    HeadStatus status;
    status.connected = true;
    status.epoch = 1;
    status.takes_readers = true;
    agent(status);
  }
  TaskId shared(std::uint32_t window) {
    const TaskId made = stream(window);
    pass_on(made, 0);
    return made;
  }
  void pass_on(TaskId made, std::uint64_t index) {
    step(HandOver{{core_.ref_of(position_id(made, index))}, ProcessId::of(60), NodeId::of(2)});
  }
  void elsewhere(TaskId made, std::uint64_t taken) {
    agent(ReadersMoved{position_id(made, 0), taken});
  }
  std::vector<ItemsTaken> reported() const { return to_executor<ItemsTaken>(); }
};

TEST_F(SharedStreams, PassedOn_KeepsItsWindow) {
  const TaskId made = shared(4);
  EXPECT_TRUE(reported().empty());
  EXPECT_TRUE(to_executor<ItemsTaken>().empty());
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  EXPECT_TRUE(reported().empty());
  elsewhere(made, 2);
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, 2}}));
  elsewhere(made, 1);
  EXPECT_TRUE(reported().empty()) << "a reader that begins late takes nothing back";
}

TEST_F(SharedStreams, SlowestProcessMovesTheWindow) {
  const TaskId made = shared(4);
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  elsewhere(made, 1);
  for (std::uint64_t i = 0; i < 3; ++i) take(made, i);
  EXPECT_TRUE(reported().empty()) << "the other process is at 1";
  elsewhere(made, 4);
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, 3}})) << "this process is at 3";
}

TEST_F(SharedStreams, ReaderElsewhereEnds_ThisProcessCounts) {
  const TaskId made = shared(4);
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  elsewhere(made, 1);
  for (std::uint64_t i = 0; i < 3; ++i) take(made, i);
  elsewhere(made, 0);
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, 3}}));
}

TEST_F(SharedStreams, ReaderHereDropsItsPosition_OthersCount) {
  const TaskId made = shared(4);
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  step(RetainRef{position_id(made, 0)});
  take(made, 0);
  elsewhere(made, 3);
  EXPECT_TRUE(reported().empty()) << "this process is at 1";
  release(position_id(made, 1));
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, 3}}));
}

TEST_F(SharedStreams, PassedOnWhileReading_OthersCount) {
  const TaskId made = shared(4);
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  take(made, 0);
  elsewhere(made, 3);
  EXPECT_TRUE(reported().empty());
  pass_on(made, 1);
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, 3}}));
}

TEST_F(SharedStreams, ReaderCannotReport_EndsTheWindow) {
  const TaskId made = shared(4);
  elsewhere(made, stream_without_window);
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, stream_without_window}}));
}

TEST_F(SharedStreams, ProcessExits_EndsTheWindow) {
  const TaskId made = shared(4);
  elsewhere(made, 1);
  step(AwaitSubmitted{});
  EXPECT_EQ(reported(), (std::vector{ItemsTaken{1, stream_without_window}}));
}

TEST_F(SharedStreams, ProducerCrashes_RetryKeepsTheLimit) {
  const TaskId made = shared(4);
  for (std::uint64_t i = 0; i < 4; ++i) yield(i);
  elsewhere(made, 2);
  elsewhere(made, 0);
  crash();
  EXPECT_EQ(retry_at(21).taken, 2u);
}

TEST_F(SharedStreams, PositionsNameStreamAndTerms) {
  const TaskId made = stream(4);
  yield(0);
  pass_on(made, 0);
  yield(1);
  for (std::uint64_t index = 0; index < 2; ++index) {
    const auto link = stream_link(core_.object(position_id(made, index))->value->bytes.bytes());
    ASSERT_TRUE(link);
    EXPECT_EQ(link->stream, position_id(made, 0));
    EXPECT_EQ(link->index, index);
    EXPECT_EQ(link->window, 4u);
  }
  end();
  EXPECT_TRUE(is_end(made, 2));
}

// Streams of another process.
class ForeignStreams : public SharedStreams {
 protected:
  static RefRecord position(std::uint64_t index) {
    return {position_id(TaskId::of(9), index), NodeId::of(2), ProcessId::of(50), {}};
  }
  ForeignStreams() { step(AdoptRef{position(0)}); }
  // Reads a position and drops it.
  void read(std::uint64_t index, std::int64_t size_bytes = 8, bool drops = true) {
    step(AdoptRef{position(index + 1)});
    step(ItemRead{position(index).object,
                  position(index + 1).object,
                  {position(0).object, index, 6, size_bytes}});
    sent_ = to_agent<ReaderMoved>();
    if (drops) release(position(index).object);
  }
  std::vector<std::uint64_t> sent() const {
    std::vector<std::uint64_t> taken;
    for (const auto& each : sent_) taken.push_back(each.taken);
    return taken;
  }
  std::vector<ReaderMoved> sent_;
};

TEST_F(ForeignStreams, ReportsFirstItemThenBatches) {
  read(0);
  EXPECT_EQ(sent_, (std::vector{ReaderMoved{position(0), 1}}));
  read(1);
  read(2);
  EXPECT_TRUE(sent_.empty());
  read(3);
  EXPECT_EQ(sent(), (std::vector<std::uint64_t>{4})) << "half of the window";
  read(4, stream_window_bytes);
  EXPECT_EQ(sent(), (std::vector<std::uint64_t>{5})) << "a large item";
}

TEST_F(ForeignStreams, ReportsEndWhenLastPositionIsDropped) {
  read(0);
  read(1);
  release(position(2).object);
  EXPECT_EQ(to_agent<ReaderMoved>(), (std::vector{ReaderMoved{position(0), 0}}));
}

TEST_F(ForeignStreams, ReportsEndWhenPassedOn) {
  read(0);
  step(HandOver{{position(1)}, ProcessId::of(60), NodeId::of(2)});
  EXPECT_EQ(to_agent<ReaderMoved>(), (std::vector{ReaderMoved{position(0), 0}}));
  read(1);
  EXPECT_EQ(sent(), (std::vector<std::uint64_t>{2})) << "the process reads again";
}

TEST_F(ForeignStreams, SlowerCopyReportsNothing) {
  read(0, 8, false);
  step(RetainRef{position(1).object});
  read(1);
  read(2);
  read(3);
  EXPECT_EQ(sent(), (std::vector<std::uint64_t>{4}));
  read(0);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(ForeignStreams, NewAgent_GetsTheReportAgain) {
  read(0);
  read(1);
  step(AgentLost{});
  step(Attached{node(), {}, {}});
  EXPECT_EQ(to_agent<ReaderMoved>(), (std::vector{ReaderMoved{position(0), 2}}));
}

TEST_F(ForeignStreams, AgentOfPreviousRelease_GetsNoReport) {
  agent(HeadStatus{true, 2});
  read(0);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(ItemStreams, NoConsumerLeft_CancelsTheCall) {
  const TaskId made = stream();
  yield(0);
  release(position_id(made, 0));
  ASSERT_EQ(to_executor<CancelCall>().size(), 1u);
  EXPECT_EQ(state(item_id(made, 0)), "unknown");
  yield(1, stored(NodeId::of(2)));
  EXPECT_EQ(to_agent<ReleaseObject>(), (std::vector{ReleaseObject{item_id(made, 1)}}));
  CallReply cancelled;
  cancelled.outcome = CallOutcome::cancelled;
  reply(producer, cancelled);
  EXPECT_EQ(core_.sizes().objects, 0u);
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(ItemStreams, DroppedBeforeItLeft_NeverRuns) {
  SubmitTask given = task(7);
  given.call.form.edit().stream.window = 4;
  const TaskId made = submit(given);
  release(position_id(made, 0));
  slot(3, producer);
  EXPECT_TRUE(calls_at(producer).empty());
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(ItemStreams, ProcessExits_CancelsStreamsOfItsOwn) {
  const TaskId made = stream();
  step(AwaitSubmitted{});
  EXPECT_EQ(to_executor<CancelCall>().size(), 1u);
  EXPECT_EQ(state(position_id(made, 0)), "pending");
}

TEST_F(ItemStreams, ProcessExits_FinishesStreamsOfOthers) {
  const TaskId made = stream();
  step(HandOver{{core_.ref_of(position_id(made, 0))}, ProcessId::of(60), NodeId::of(2)});
  step(AwaitSubmitted{});
  EXPECT_TRUE(to_executor<CancelCall>().empty());
}

TEST_F(ItemStreams, CancelFromAnEarlierPosition) {
  const TaskId made = stream();
  yield(0);
  step(CancelObject{position_id(made, 0)});
  EXPECT_EQ(to_executor<CancelCall>().size(), 1u);
}

TEST_F(ItemStreams, ProducerCrashes_RetryRepeatsNoItem) {
  const TaskId made = stream();
  for (std::uint64_t i = 0; i < 3; ++i) yield(i);
  take(made, 0);
  crash();
  EXPECT_EQ(state(position_id(made, 3)), "pending");
  const StreamTerms& terms = retry_at(21);
  EXPECT_EQ(terms.known, 3u);
  EXPECT_EQ(terms.taken, 1u);
  EXPECT_TRUE(terms.missing.empty());
  yield(3, 21);
  EXPECT_EQ(refs(made, 2), (std::vector{item_id(made, 2), position_id(made, 3)}));
  EXPECT_EQ(text(item_id(made, 3)), "item 3");
  end(21);
  EXPECT_TRUE(is_end(made, 4));
}

TEST_F(ItemStreams, NoRetryLeft_ItemsPrecedeTheError) {
  const TaskId made = stream(4, 0);
  yield(0);
  crash();
  EXPECT_EQ(text(item_id(made, 0)), "item 0");
  EXPECT_EQ(error(position_id(made, 1)).kind, ErrorKind::worker_crashed);
}

TEST_F(ItemStreams, RetryYieldsLess_TheEndFollowsKnownItems) {
  const TaskId made = stream();
  yield(0);
  yield(1);
  crash();
  retry_at(21);
  end(21);
  EXPECT_EQ(text(item_id(made, 1)), "item 1");
  EXPECT_TRUE(is_end(made, 2));
}

TEST_F(ItemStreams, ActorRestarts_CallContinues) {
  const ActorId actor = make_actor(1);
  actor_alive(actor, 30, 1);
  const TaskId made = stream_of(actor, 1);
  yield(0, 30);
  ActorChanged changed;
  changed.actor = actor;
  changed.state = ActorState::restarting;
  changed.version = 2;
  head(changed);
  step(StreamEnded{ProcessId::of(30)});
  actor_alive(actor, 31, 3);
  ASSERT_EQ(calls_at(31).size(), 1u);
  EXPECT_EQ(calls_at(31).front().call.form->stream.known, 1u);
  yield(1, 31);
  EXPECT_EQ(text(item_id(made, 1)), "item 1");
}

TEST_F(ItemStreams, RefsInItem_AreClaimedForThatItem) {
  const TaskId made = stream();
  ValueRecord item = value("holds a ref");
  item.contained.push_back(foreign(5));
  yield(0, item);
  EXPECT_TRUE(to_executor<ReplyClaimed>().empty());
  agent(HoldObjectReply{ObjectId::of(5)});
  EXPECT_EQ(to_executor<ReplyClaimed>(), (std::vector{ReplyClaimed{1, false, false, 1}}));
  EXPECT_EQ(state(item_id(made, 0)), "value");
}

TEST_F(ItemStreams, PassedOn_PositionsFollowEachOther) {
  const TaskId made = stream();
  const RefRecord position = core_.ref_of(position_id(made, 0));
  step(HandOver{{position}, ProcessId::of(60), NodeId::of(2)});
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  EXPECT_TRUE(commanded<HandedOver>().front().tasks.empty()) << "this process finishes the call";
  yield(0);
  EXPECT_EQ(to_agent<ReserveObjectRequest>().front().object, position_id(made, 0));
  ReserveObjectReply location;
  location.object = position_id(made, 0);
  location.location = {4, 4096, 1};
  agent(location);
  const auto written = commanded<SpaceReserved>().front();
  step(ValueWritten{written.object, false, written.contained});
  std::vector<ObjectId> exported;
  for (const auto& each : to_agent<ExportObject>()) exported.push_back(each.object);
  EXPECT_EQ(exported, (std::vector{item_id(made, 0), position_id(made, 1)}));
}

TEST_F(ItemStreams, PassedOnAndDropped_CancelsTheCall) {
  const TaskId made = stream();
  step(HandOver{{core_.ref_of(position_id(made, 0))}, ProcessId::of(60), NodeId::of(2)});
  release(position_id(made, 0));
  EXPECT_EQ(to_agent<ReleaseObject>(), (std::vector{ReleaseObject{position_id(made, 0)}}));
  EXPECT_TRUE(to_executor<CancelCall>().empty()) << "another process may read it";
  agent(ExportReleased{position_id(made, 0)});
  EXPECT_EQ(to_executor<CancelCall>().size(), 1u);
}

TEST_F(ItemStreams, ItemArrivesAfterRelease_HomeCountsThisProcess) {
  const TaskId made = stream();
  step(HandOver{{core_.ref_of(position_id(made, 0))}, ProcessId::of(60), NodeId::of(2)});
  const auto exports = [&] {
    return std::ranges::count(to_agent<ExportObject>(), position_id(made, 0),
                              &ExportObject::object);
  };
  release(position_id(made, 0));
  EXPECT_EQ(exports(), 0);
  yield(0);
  EXPECT_EQ(exports(), 1) << "the home may have forgotten it";
  agent(ExportReleased{position_id(made, 0)});
  EXPECT_EQ(state(position_id(made, 0)), "value") << "the report preceded the export";
}

}  // namespace
}  // namespace mobula::internal::client
