#include "base/slow_step.h"

#include <gtest/gtest.h>

namespace mobula::internal {

namespace slow_step_events {
struct Tick {};
struct Inner {};
struct Frame {
  std::optional<Inner> message;
};
struct Heard {
  Frame frame;
};
struct Said {
  std::variant<Heard, Tick> message;
};
}  // namespace slow_step_events

namespace {

using namespace slow_step_events;
using Event = std::variant<Tick, Said>;

TEST(EventKind, NamesMessagesWithinEvent) {
  EXPECT_EQ(EventKind(Event(Tick{})).text(), "Tick");
  EXPECT_EQ(EventKind(Event(Said{Heard{}})).text(), "Said/Heard");
  EXPECT_EQ(EventKind(Event(Said{Heard{Frame{Inner{}}}})).text(), "Said/Heard/Inner");
}

}  // namespace
}  // namespace mobula::internal
