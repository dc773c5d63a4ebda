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

}  // namespace
}  // namespace mobula::internal::client
