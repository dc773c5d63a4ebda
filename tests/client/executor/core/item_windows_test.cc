// Streaming calls in their executor: the items that are sent, and the window.
#include "client/executor/core/executor_fixture.h"

namespace mobula::internal::executor {
namespace {

class ItemWindowsTest : public Executor {
 protected:
  std::uint64_t start_stream(StreamTerms terms) {
    be_task_executor();
    PushCall call;
    call.number = 1;
    call.call.task = TaskId::of(101);
    call.call.form.edit().stream = std::move(terms);
    say(owner, call);
    return running_.at(0).token;
  }
  void give(std::uint64_t token, std::uint64_t index, std::int64_t size_bytes = 8,
            RefRecords pinned = {}) {
    ValueRecord value;
    value.size_bytes = size_bytes;
    step(ItemGiven{token, index, value, {}, std::move(pinned)});
  }
  bool has_space(std::uint64_t token, std::uint64_t index) const {
    return core_.items().has_space(token, index);
  }
};

TEST_F(ItemWindowsTest, SendsItemBeforeReply) {
  const auto token = start_stream({.window = 4});
  give(token, 0);
  ASSERT_EQ(sent<ItemYielded>().size(), 1u);
  EXPECT_EQ(sent<ItemYielded>()[0].task, TaskId::of(101));
  EXPECT_EQ(core_.running(), 1u);
  finish(token);
  EXPECT_EQ(sent<CallReply>().size(), 1u);
}

TEST_F(ItemWindowsTest, WindowFull_WaitsForConsumers) {
  const auto token = start_stream({.window = 2});
  give(token, 0);
  give(token, 1);
  EXPECT_FALSE(has_space(token, 2));
  say(owner, ItemsTaken{1, 1});
  EXPECT_EQ(commanded<WindowMoved>(), (std::vector{WindowMoved{token}}));
  EXPECT_TRUE(has_space(token, 2));
  EXPECT_FALSE(has_space(token, 3));
}

TEST_F(ItemWindowsTest, LargeItems_LimitTheWindow) {
  const auto token = start_stream({.window = 100});
  EXPECT_TRUE(has_space(token, 0));
  give(token, 0, stream_window_bytes * 2);
  EXPECT_FALSE(has_space(token, 1));
  say(owner, ItemsTaken{1, 1});
  EXPECT_TRUE(has_space(token, 1));
}

TEST_F(ItemWindowsTest, RepeatedRun_SendsWhatTheCallerLacks) {
  StreamTerms terms{.window = 2};
  terms.known = 5;
  terms.taken = 4;
  terms.missing = {1};
  const auto token = start_stream(terms);
  const auto& items = core_.items();
  EXPECT_FALSE(items.is_needed(token, 0));
  EXPECT_TRUE(items.is_needed(token, 1));
  EXPECT_TRUE(has_space(token, 1));
  EXPECT_FALSE(items.is_needed(token, 4));
  EXPECT_TRUE(items.is_needed(token, 5));
  EXPECT_TRUE(has_space(token, 5));
  EXPECT_FALSE(has_space(token, 6));
}

TEST_F(ItemWindowsTest, KeepsRefsOfItemUntilClaimed) {
  const auto token = start_stream({.window = 4});
  RefRecord inside;
  inside.object = ObjectId::of(5);
  give(token, 0, 8, {inside});
  say(owner, ReplyClaimed{1});
  EXPECT_TRUE(commanded<ReleasePins>().empty()) << "this is the claim of the reply";
  say(owner, ReplyClaimed{1, false, false, 1});
  EXPECT_EQ(commanded<ReleasePins>().size(), 1u);
}

TEST_F(ItemWindowsTest, CallWasEndedByForce_ReleasesRefsOfItem) {
  const auto token = start_stream({.window = 4});
  say(owner, CancelCall{1, true, true});
  RefRecord inside;
  inside.object = ObjectId::of(5);
  give(token, 0, 8, {inside});
  EXPECT_TRUE(sent<ItemYielded>().empty());
  EXPECT_EQ(commanded<ReleasePins>().size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::executor
