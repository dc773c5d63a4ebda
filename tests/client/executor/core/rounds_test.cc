// Calls of an actor that are rejected for lost elements, and later calls of the same caller.
#include "client/executor/core/executor_fixture.h"

namespace mobula::internal::executor {
namespace {

class Rounds : public Executor {
 protected:
  static constexpr std::uint64_t caller = 7;

  // Sends a call of this round. Returns the token of its fetch, or 0 without a fetch.
  std::uint64_t call(std::uint64_t number, std::uint64_t round, bool with_ref = false) {
    round_ = round;
    push(caller, number, with_ref);
    return with_ref ? commanded<FetchArguments>().at(0).token : 0;
  }
  void elements_are_lost(std::uint64_t token) {
    step(ArgumentsFetched{
        token, failure(ErrorCode::not_found, "elements are lost"), {ObjectId::of(9)}});
  }
  std::vector<std::uint64_t> handed_back() const {
    std::vector<std::uint64_t> numbers;
    for (const auto& each : sent<CallReturned>(caller)) numbers.push_back(each.number);
    return numbers;
  }
};

TEST_F(Rounds, ReturnsCallsBehindRejectedCallUnstarted) {
  be_actor();
  call(1, 1);
  const auto lost = call(2, 1, true);
  call(3, 1);
  call(4, 1);
  elements_are_lost(lost);
  ASSERT_EQ(sent<CallReply>(caller).size(), 1u);
  EXPECT_EQ(sent<CallReply>(caller)[0].number, 2u);
  EXPECT_EQ(handed_back(), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(commanded<DropCall>().size(), 3u);
  call(5, 1);
  EXPECT_EQ(handed_back(), std::vector<std::uint64_t>{5}) << "it was on its way";
  for (std::uint64_t number = 6; number <= 8; ++number) call(number, 2);
  EXPECT_EQ(core_.queued(), 3u);
  for (std::size_t i = 1; i <= 4; ++i) finish(running_.at(i).token);
  EXPECT_EQ(order(), (std::vector{TaskId(), TaskId::of(701), TaskId::of(706), TaskId::of(707),
                                  TaskId::of(708)}));
}

TEST_F(Rounds, CallsOfOtherCallers_Continue) {
  be_actor();
  const auto lost = call(1, 1, true);
  push(caller, 2, true, true);
  const auto beside = commanded<FetchArguments>().at(0).token;
  push(8, 1);
  push(8, 2);
  elements_are_lost(lost);
  EXPECT_TRUE(handed_back().empty());
  EXPECT_TRUE(sent<CallReturned>(8).empty());
  step(ArgumentsFetched{beside, {}});
  push(caller, 3, false, true);
  EXPECT_TRUE(handed_back().empty()) << "they have no order";
  EXPECT_EQ(core_.running(), 3u);
  EXPECT_EQ(core_.queued(), 1u);
}

TEST_F(Rounds, CallsOfOtherGroups_Continue) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  assignment.actor.groups = {{"io", 1}};
  step(Assigned{assignment});
  finish(started()[0].token);
  const auto lost = call(1, 1, true);
  push(caller, 2, false, false, "io");
  push(caller, 3, false, false, "io");
  push(caller, 4);
  elements_are_lost(lost);
  EXPECT_EQ(handed_back(), std::vector<std::uint64_t>{4});
  push(caller, 5, false, false, "io");
  EXPECT_TRUE(handed_back().empty());
  push(caller, 6);
  EXPECT_EQ(handed_back(), std::vector<std::uint64_t>{6}) << "it was on its way";
  call(7, 2);
  EXPECT_EQ(order().back(), TaskId::of(707));
  finish(running_.at(1).token);
  EXPECT_EQ(order().back(), TaskId::of(703));
}

TEST_F(Rounds, OutOfOrder_NoCallReturns) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  assignment.actor.out_of_order = true;
  step(Assigned{assignment});
  finish(started()[0].token);
  const auto lost = call(1, 1, true);
  call(2, 1);
  call(3, 1);
  elements_are_lost(lost);
  call(4, 1);
  EXPECT_TRUE(handed_back().empty());
  EXPECT_EQ(core_.queued(), 2u);
}

TEST_F(Rounds, LaterRejectionOfEarlierCall_StartsRound) {
  be_actor();
  const auto first = call(1, 1, true);
  const auto second = call(2, 1, true);
  elements_are_lost(second);
  call(3, 2);
  EXPECT_TRUE(handed_back().empty());
  elements_are_lost(first);
  EXPECT_EQ(handed_back(), std::vector<std::uint64_t>{3});
  call(4, 2);
  EXPECT_EQ(handed_back(), std::vector<std::uint64_t>{4})
      << "its caller had not heard of the first";
  call(5, 3);
  EXPECT_EQ(order().back(), TaskId::of(705));
}

TEST_F(Rounds, CallerResendsNothing_BlocksNoOtherCall) {
  be_actor();
  const auto token = call(1, 1, true);
  call(2, 1);
  step(ArgumentsFetched{token, failure(ErrorCode::unavailable, "node 2 died")});
  EXPECT_TRUE(handed_back().empty());
  EXPECT_EQ(order().back(), TaskId::of(702));
}

TEST_F(Rounds, CallerWithoutRounds_GetsNothingBack) {
  be_actor();
  const auto lost = call(1, 0, true);
  call(2, 0);
  elements_are_lost(lost);
  call(3, 0);
  EXPECT_TRUE(handed_back().empty());
  finish(running_.at(1).token);
  EXPECT_EQ(order().back(), TaskId::of(703));
}

TEST_F(Rounds, QueueFull_StartsRound) {
  ExecutorOptions options;
  options.max_queue = 2;
  core_ = ExecutorCore(options);
  be_actor();
  for (std::uint64_t number = 1; number <= 3; ++number) call(number, 1);
  EXPECT_EQ(core_.queued(), 2u);
  call(4, 1);
  ASSERT_EQ(handed_back(), std::vector<std::uint64_t>{4});
  EXPECT_TRUE(sent<CallReturned>(caller)[0].queue_full);
  finish(running_.at(1).token);
  call(5, 1);
  EXPECT_EQ(handed_back(), std::vector<std::uint64_t>{5}) << "or it would start before the fourth";
  EXPECT_FALSE(sent<CallReturned>(caller)[0].queue_full);
  push(caller, 6, false, true);
  EXPECT_TRUE(handed_back().empty()) << "it runs concurrently with the others";
  call(7, 2);
  EXPECT_EQ(core_.queued(), 2u);
}

TEST_F(Rounds, Tasks_HaveNoOrder) {
  be_task_executor();
  round_ = 1;
  push(owner, 1, true);
  const auto lost = commanded<FetchArguments>().at(0).token;
  push(owner, 2);
  elements_are_lost(lost);
  EXPECT_TRUE(sent<CallReturned>().empty());
  EXPECT_EQ(order().back(), TaskId::of(102));
}

}  // namespace
}  // namespace mobula::internal::executor
