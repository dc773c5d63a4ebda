#include "base/slow_step.h"

#include <gtest/gtest.h>

namespace mobula::internal {

namespace slow_step_events {
struct Tick {};
struct Inner {};
struct Frame {
  std::optional<Inner> message;
};
struct Received {
  Frame frame;
};
struct Said {
  std::variant<Received, Tick> message;
};
}  // namespace slow_step_events

namespace {

using namespace slow_step_events;
using Event = std::variant<Tick, Said>;

TEST(EventKind, NamesMessagesWithinEvent) {
  EXPECT_EQ(EventKind(Event(Tick{})).text(), "Tick");
  EXPECT_EQ(EventKind(Event(Said{Received{}})).text(), "Said/Received");
  EXPECT_EQ(EventKind(Event(Said{Received{Frame{Inner{}}}})).text(), "Said/Received/Inner");
}

TEST(SlowStep, NamesStepsAbove100Ms) {
  const EventKind kind(Event(Said{Received{}}));
  EXPECT_EQ(slow_step_line("head", kind, 100ms), std::nullopt);
  EXPECT_EQ(slow_step_line("head", kind, 101ms), "head: slow step event=Said/Received took_ms=101");
}

}  // namespace
}  // namespace mobula::internal
