// Items of streams that are lost while their call runs, or after its end.
#include "client/core/streaming_client.h"

namespace mobula::internal::client {
namespace {

class LostItems : public StreamingClient {};

TEST_F(LostItems, LostItem_IsYieldedAgainAlone) {
  const TaskId made = stream();
  yield(0, stored(NodeId::of(2)));
  yield(1);
  end();
  step(RetainRef{item_id(made, 0)});
  agent(ObjectGone{item_id(made, 0), "its node died"});
  EXPECT_EQ(state(item_id(made, 0)), "pending");
  const StreamTerms terms = calls_at(producer).front().call.form->stream;
  EXPECT_EQ(terms.missing, (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(terms.known, 2u);
  yield(0, stored(NodeId::of(3)));
  EXPECT_EQ(state(item_id(made, 0)), "value");
  end();
  EXPECT_TRUE(is_end(made, 2));
}

TEST_F(LostItems, ItemLostWhileCallRuns_RunsAgainAfter) {
  const TaskId made = stream();
  yield(0, stored(NodeId::of(2)));
  agent(ObjectGone{item_id(made, 0), "its node died"});
  EXPECT_EQ(calls_at(producer).size(), 1u);
  end();
  EXPECT_TRUE(is_end(made, 1));
  ASSERT_EQ(calls_at(producer).size(), 1u);
  EXPECT_EQ(calls_at(producer).front().call.form->stream.missing, (std::vector<std::uint64_t>{0}));
  end();
  ASSERT_EQ(calls_at(producer).size(), 1u) << "the run did not yield it, so another follows";
}

// A running call yields each item once, and may wait until this one is read.
TEST_F(LostItems, AgentDiesWhileCallRuns_ItemElsewhereIsFetched) {
  const TaskId made = stream();
  yield(0, stored(NodeId::of(2)));
  yield(1, stored(node()));
  new_agent();
  EXPECT_EQ(to_agent<ExportObject>().size(), 1u);
  const auto fetches = to_agent<FetchObjectRequest>();
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches[0].ref.object, item_id(made, 0));
  EXPECT_EQ(fetches[0].location, NodeId::of(2));
  EXPECT_EQ(state(item_id(made, 0)), "value");
  EXPECT_EQ(state(item_id(made, 1)), "pending") << "the store of the dead agent had it";
}

TEST_F(LostItems, AgentDiesAfterCallEnded_ItemsAreYieldedAgain) {
  const TaskId made = stream();
  yield(0, stored(NodeId::of(2)));
  end();
  new_agent();
  EXPECT_TRUE(to_agent<FetchObjectRequest>().empty());
  ASSERT_EQ(calls_at(producer).size(), 1u);
  EXPECT_EQ(calls_at(producer).front().call.form->stream.missing, (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(state(item_id(made, 0)), "pending");
}

TEST_F(LostItems, ItemLostAndCallFails_ItemIsTheError) {
  const TaskId made = stream(4, 0);
  yield(0, stored(NodeId::of(2)));
  agent(ObjectGone{item_id(made, 0), "its node died"});
  EXPECT_EQ(state(item_id(made, 0)), "pending");
  reply_exception(producer);
  EXPECT_EQ(error(item_id(made, 0)).text, "thrown");
  EXPECT_EQ(error(position_id(made, 1)).text, "thrown");
}

TEST_F(LostItems, StreamDropped_ItemInUseIsYieldedAgain) {
  const TaskId made = stream();
  yield(0, stored(NodeId::of(2)));
  end();
  step(RetainRef{item_id(made, 0)});
  release(position_id(made, 0));
  EXPECT_EQ(state(position_id(made, 1)), "unknown");
  agent(ObjectGone{item_id(made, 0), "its node died"});
  yield(0, stored(NodeId::of(3)));
  end();
  EXPECT_EQ(state(item_id(made, 0)), "value");
  release(item_id(made, 0));
  agent(ExportReleased{item_id(made, 0)});
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(LostItems, LostItemIsNeverYieldedAgain_BecomesError) {
  const TaskId made = stream(4, 1);
  yield(0, stored(NodeId::of(2)));
  end();
  agent(ObjectGone{item_id(made, 0), "its node died"});
  end();
  EXPECT_EQ(error(item_id(made, 0)).kind, ErrorKind::object_lost);
  release(position_id(made, 0));
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(LostItems, CancelledStream_LostItemIsAnError) {
  const TaskId made = stream();
  yield(0, stored(NodeId::of(2)));
  step(CancelObject{position_id(made, 0)});
  CallReply cancelled;
  cancelled.outcome = CallOutcome::cancelled;
  reply(producer, cancelled);
  EXPECT_EQ(state(item_id(made, 0)), "value") << "a cancelled stream keeps its items";
  agent(ObjectGone{item_id(made, 0), "its node died"});
  EXPECT_EQ(error(item_id(made, 0)).kind, ErrorKind::object_lost);
  EXPECT_NE(error(item_id(made, 0)).text.find("its stream was cancelled"), std::string::npos);
  EXPECT_TRUE(calls_at(producer).empty());
}

}  // namespace
}  // namespace mobula::internal::client
