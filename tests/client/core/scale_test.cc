// Ordered deadlines are exact after each step, for any set of rows.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class Scale : public SmallClient {
 protected:
  Scale() { checks_deadlines = false; }
};

TEST_F(Scale, ManyStreams_HaveExactDeadlines) {
  for (std::uint64_t number = 1; number <= 50; ++number) {
    const ActorId actor = make_actor(1000 + number);
    actor_alive(actor, 2000 + number, 1);
    call(actor);
  }
  checks_deadlines = true;
  for (std::uint64_t number = 1; number <= 50; number += 3) reply_value(2000 + number, "x");
  for (int i = 0; i < 100; ++i) {
    const auto due = core_.next_deadline();
    if (!due) break;
    pass(*due - now_ > Duration(0) ? *due - now_ : Duration(1));
  }
  for (std::uint64_t number = 2; number <= 50; number += 3)
    step(StreamEnded{ProcessId::of(2000 + number)});
  pass(Duration(60ms));
  pass(Duration(10s));
}

TEST_F(Scale, RetriedWrites_HaveExactDeadlines) {
  checks_deadlines = true;
  for (std::uint64_t number = 1; number <= 20; ++number) {
    step(PutInline{ObjectId::of(number), value("x")});
    step(PinRefs{{RefRecord{ObjectId::of(number), node(), ProcessId::of(1), {}}}});
    ReserveObjectReply full;
    full.object = ObjectId::of(number);
    full.failure = failure(ErrorCode::resource_exhausted, "the store is full");
    agent(full);
    now_ = now_ + Duration(1ms);
  }
  EXPECT_TRUE(core_.next_deadline().has_value());
  pass(Duration(90ms));
  EXPECT_FALSE(to_agent<ReserveObjectRequest>().empty());
  pass(Duration(200ms));
}

// Rows that one call visits, next to idle classes with an idle slot each.
class ScaleOfIdleClasses : public Scale {
 protected:
  void add_idle_class(std::uint64_t number) {
    SubmitTask waits = task(1'000'000 + number);
    waits.demand_class.id = ClassId::of(1'000 + number);
    waits.call.arguments.edit().push_back(by_ref({result(first_), node(), ProcessId::of(1), {}}));
    step(waits);
    SlotReady ready;
    ready.slot = SlotId::of(1'000 + number);
    ready.demand_class = waits.demand_class.id;
    ready.node = node();
    ready.endpoint.process = ProcessId::of(1'000'000 + number);
    head(ready);
  }
  std::uint64_t visits_of_one_call() {
    const std::uint64_t before = core_.visited_rows();
    const TaskId task = submit();
    reply_value(20, "x");
    release(result(task));
    pass(Duration(1us));
    EXPECT_TRUE(core_.next_deadline().has_value());
    return core_.visited_rows() - before;
  }
  // `rows`: count of classes and slots together.
  std::uint64_t visits_next_to(std::uint64_t rows) {
    while (2 * idle_ < rows) add_idle_class(++idle_);
    return visits_of_one_call();
  }

  const TaskId first_ = submit();  // its result is the argument of the waiting tasks
  std::uint64_t idle_ = 0;
};

TEST_F(ScaleOfIdleClasses, CallVisitsItsOwnClassAlone) {
  slot(1, 10);  // runs `first_`
  submit();
  slot(2, 20);
  reply_value(20, "x");
  visits_of_one_call();
  const std::uint64_t few = visits_next_to(100);
  EXPECT_EQ(visits_next_to(100'000), few);
  EXPECT_LT(few, 40U);
}

}  // namespace
}  // namespace mobula::internal::client
