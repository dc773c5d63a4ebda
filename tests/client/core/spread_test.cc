// Tasks with the strategy Spread that are kept for slots which start on other nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class Spreading : public SmallClient {
 protected:
  void submit_spread(int tasks) {
    for (int i = 0; i < tasks; ++i) {
      SubmitTask given = task(next_++);
      given.demand_class.request.strategy = SpreadStrategy{};
      submit(given);
    }
  }
  // Slot, node, and executor have equal numbers.
  void slot_on(std::uint64_t number, std::uint64_t on_node) {
    SlotReady ready;
    ready.slot = SlotId::of(number);
    ready.demand_class = ClassId::of(5);
    ready.node = NodeId::of(on_node);
    ready.endpoint.process = ProcessId::of(number);
    head(ready);
  }
  void planned(std::uint64_t version, std::vector<SlotId> starting) {
    head(DemandPlanned{ClassId::of(5), version, std::move(starting)});
  }
  // The version of the last demand in the latest step that requests a report; 0: none does.
  std::uint64_t reported_demand() const {
    for (const auto& each : to_head<Demand>()) {
      if (each.report_plan) return each.version;
    }
    return 0;
  }
  // Idle slots on nodes of equal numbers.
  void slots_after_one_task(const std::vector<std::uint64_t>& numbers) {
    submit_spread(static_cast<int>(numbers.size()));
    for (const auto each : numbers) slot_on(each, each);
    planned(100, {});
    for (const auto each : numbers) answer_all(each);
    pass(1ms);
  }
  std::size_t answer_all(std::uint64_t executor) {
    std::size_t answered = 0;
    for (; !calls_at(executor).empty(); ++answered) reply_value(executor, "done");
    return answered;
  }

 private:
  std::uint64_t next_ = 1'000;
};

TEST_F(Spreading, KeepsTasksForSlotsThatStart) {
  submit_spread(1);
  const auto first = reported_demand();
  ASSERT_NE(first, 0u);
  submit_spread(2);
  planned(first, {SlotId::of(21)});
  pass(2ms);
  const auto second = reported_demand();
  ASSERT_GT(second, first) << "a demand that grows is sent after 2 ms";
  slot_on(21, 1);
  EXPECT_EQ(answer_all(21), 1u) << "the plan for the other two is not known";
  planned(second, {SlotId::of(22), SlotId::of(23)});
  EXPECT_THAT(calls_at(21), IsEmpty());
  slot_on(22, 2);
  EXPECT_EQ(answer_all(22), 1u);
  slot_on(23, 3);
  EXPECT_EQ(answer_all(23), 1u);
}

// Each task of the burst is a growing demand, and the head has replied to none of them.
TEST_F(Spreading, UnplannedTask_WaitsWhenSlotBecomesIdle) {
  slots_after_one_task({21, 22});
  submit_spread(1);
  pass(10us);
  submit_spread(1);
  pass(10us);
  submit_spread(1);
  const auto last = reported_demand();
  ASSERT_NE(last, 0u);
  ASSERT_EQ(calls_at(21).size() + calls_at(22).size(), 2u) << "idle slots take the first tasks";
  pass(1ms);
  EXPECT_EQ(answer_all(21), 1u);
  EXPECT_EQ(answer_all(22), 1u);
  planned(last, {SlotId::of(23)});
  EXPECT_THAT(calls_at(21), IsEmpty());
  EXPECT_THAT(calls_at(22), IsEmpty());
  slot_on(23, 3);
  EXPECT_EQ(answer_all(23), 1u);
}

// A loop of calls sends nothing to the head.
TEST_F(Spreading, IdleSlot_TakesLaterTaskWithoutDemand) {
  slots_after_one_task({21});
  pass(100us);
  for (int i = 0; i < 3; ++i) {
    submit_spread(1);
    EXPECT_THAT(to_head<Demand>(), IsEmpty());
    EXPECT_EQ(answer_all(21), 1u);
    pass(20us);
    EXPECT_THAT(to_head<Demand>(), IsEmpty());
  }
}

// A demand is sent every 2 ms, and each reply is later than the next two demands.
TEST_F(Spreading, RepliesLate_GrowingQueueRuns) {
  slots_after_one_task({21});
  submit_spread(1);
  std::deque<std::uint64_t> sent;
  std::size_t answered = 0;
  for (int i = 0; i < 20; ++i) {
    submit_spread(2);
    pass(2ms);
    if (const auto version = reported_demand()) sent.push_back(version);
    if (sent.size() < 4) continue;
    planned(sent.front(), {});
    sent.pop_front();
    answered += answer_all(21);
  }
  EXPECT_GE(answered, 20u);
}

TEST_F(Spreading, SlotReady_DemandDoesNotCountItsTask) {
  submit_spread(3);
  pass(2ms);
  planned(reported_demand(), {SlotId::of(21), SlotId::of(22), SlotId::of(23)});
  pass(100ms);
  slot_on(21, 1);
  const auto demands = to_head<Demand>();
  ASSERT_THAT(demands, SizeIs(1));
  EXPECT_EQ(demands.front().wanted_slots, 2);
}

TEST_F(Spreading, ReusesSlotWhenNoOtherSlotStarts) {
  submit_spread(4);
  pass(2ms);
  slot_on(21, 1);
  planned(100, {});
  EXPECT_EQ(answer_all(21), 4u);
}

TEST_F(Spreading, StopsKeepingTaskWhenSlotIsLost) {
  submit_spread(2);
  pass(2ms);
  slot_on(21, 1);
  planned(100, {SlotId::of(22)});
  EXPECT_EQ(answer_all(21), 1u);
  head(SlotLost{SlotId::of(22), {}});
  EXPECT_EQ(answer_all(21), 1u);
}

// A head of an earlier release sends no report.
TEST_F(Spreading, StopsWaitingWhenHeadSendsNoReport) {
  submit_spread(2);
  slot_on(21, 1);
  EXPECT_EQ(answer_all(21), 1u);
  ASSERT_TRUE(core_.next_deadline());
  pass(SpreadTurns::report_timeout + 2ms);
  EXPECT_EQ(answer_all(21), 1u);
}

TEST_F(Spreading, StopsKeepingTaskWhenSlotNeverStarts) {
  submit_spread(2);
  pass(2ms);
  slot_on(21, 1);
  planned(100, {SlotId::of(22)});
  EXPECT_EQ(answer_all(21), 1u);
  pass(SpreadTurns::start_timeout);
  EXPECT_EQ(answer_all(21), 1u);
}

TEST_F(Spreading, PrefersNodeWithFewestCalls) {
  submit_spread(1);
  slot_on(21, 1);
  slot_on(22, 1);
  slot_on(23, 2);
  planned(100, {});
  answer_all(21);
  submit_spread(1);
  planned(100, {});
  EXPECT_THAT(calls_at(23), SizeIs(1)) << "node 1 had the first call";
}

// Otherwise these slots decide which device the actor gets.
TEST_F(SmallClient, ReturnsIdleDeviceSlotsBeforeActor) {
  SubmitTask on_gpu = task(1);
  on_gpu.demand_class.request.resources.set("GPU", Quantity::from_units(2'500));
  submit(on_gpu);
  slot(3, 20);
  reply_value(20, "done");
  make_actor(1);
  EXPECT_THAT(to_head<ReturnSlot>(), IsEmpty()) << "the actor asks for no device";
  SubmitActor actor;
  actor.spec.actor = ActorId::of(2);
  actor.spec.job = JobId::of(1);
  actor.spec.demand.request.resources.set("GPU", Quantity::from_units(5'000));
  step(actor);
  EXPECT_THAT(to_head<ReturnSlot>(), SizeIs(1));
  const auto is_return = [](const Command& each) {
    const auto* command = std::get_if<SendToAgent>(&each);
    const auto* relayed = command == nullptr ? nullptr : std::get_if<ForHead>(&command->message);
    return relayed != nullptr && std::holds_alternative<ReturnSlot>(relayed->message);
  };
  const auto is_create = [](const Command& each) {
    const auto* command = std::get_if<SendToAgent>(&each);
    const auto* relayed = command == nullptr ? nullptr : std::get_if<ForHead>(&command->message);
    return relayed != nullptr && std::holds_alternative<CreateActor>(relayed->message);
  };
  EXPECT_LT(std::ranges::find_if(out, is_return), std::ranges::find_if(out, is_create));
}

// A task that must not queue at an executor waits while the slot is busy, several times in a row.
TEST_F(SmallClient, DemandsFromAndToZeroAreLimited) {
  SubmitTask given = task(1);
  given.max_retries = 0;
  submit(given);
  slot(3, 20);
  std::size_t demands = 0;
  const auto count = [&] { demands += to_head<Demand>().size(); };
  for (std::uint64_t number = 2; number < 1'002; ++number) {
    given = task(number);
    given.max_retries = 0;
    submit(given);
    count();
    pass(5us);
    count();
    reply_value(20, "done");
    count();
    pass(5us);
    count();
  }
  EXPECT_THAT(calls_at(20), SizeIs(1));
  EXPECT_LE(demands, 40u) << "in 10 ms";
}

TEST_F(Spreading, IgnoresOtherStrategies) {
  submit();
  EXPECT_EQ(reported_demand(), 0u);
  submit();
  slot(21, 21);
  EXPECT_EQ(answer_all(21), 2u);
}

}  // namespace
}  // namespace mobula::internal::client
