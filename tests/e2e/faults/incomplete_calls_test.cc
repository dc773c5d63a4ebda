// Thousands of deferred calls and suspended coroutines while nodes and drivers end.
#include <csignal>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using IncompleteCalls = ClusterTest;

TEST_F(IncompleteCalls, NodeDrained_CallsEndOrRunElsewhere) {
  start_head();
  start_node("b");
  Process driver = start_driver({"drained_with_incomplete_calls", node_id("b")});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  const Ended drained = mobula({"drain", node_id("b"), "--deadline", "1"});
  EXPECT_EQ(drained.code, 0) << drained.out << drained.err;
  driver.say("go");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
}

TEST_F(IncompleteCalls, NodeDrained_StreamsContinueOrEnd) {
  start_head();
  start_node("b");
  Process driver = start_driver({"drained_with_streams", node_id("b"), directory() + "/gate"});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  const Ended drained = mobula({"drain", node_id("b"), "--deadline", "1"});
  EXPECT_EQ(drained.code, 0) << drained.out << drained.err;
  driver.say("go");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
}

TEST_F(IncompleteCalls, DriverEnds_ActorsEnd) {
  start_head();
  Process ends = start_driver({"ends_with_incomplete_calls"});
  Process killed = start_driver({"ends_with_incomplete_calls"});
  ASSERT_TRUE(ends.prints("ready", Milliseconds(60'000))) << ends.err();
  ASSERT_TRUE(killed.prints("ready", Milliseconds(60'000))) << killed.err();
  ends.say("go");
  EXPECT_EQ(ends.wait(Milliseconds(30'000)).code, 0) << ends.err();
  killed.signal(SIGKILL);
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
}

}  // namespace
}  // namespace mobula::e2e
