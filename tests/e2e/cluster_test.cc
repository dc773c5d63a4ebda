// Several nodes on one machine, each with its own processes and state directory.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using SeveralNodes = ClusterTest;
using OneNode = ClusterTest;

TEST_F(SeveralNodes, RunsTasksActorsAndTransfersEverywhere) {
  start_head();
  start_node("b");
  start_node("c");
  EXPECT_EQ(alive_nodes(), 3u);
  EXPECT_NE(drive({"across_nodes"}).out.find("3 nodes"), std::string::npos);
  drive({"spread_actors"});
  drive({"nested", "6"});
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(OneNode, RejectsWrongUse) {
  start_head();
  drive({"wrong_use"});
}

TEST_F(OneNode, DriverExited_DetachedActorSurvives) {
  start_head();
  drive({"make_detached", "shared"});
  EXPECT_NE(drive({"use_detached", "shared"}).out.find("value 2"), std::string::npos);
  EXPECT_NE(drive({"use_detached", "shared", "and kill"}).out.find("value 3"), std::string::npos);
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(OneNode, TenThousandTasksAndCalls_LeaveNothing) {
  start_head({"--num-cpus", "2"});
  const auto agent = agent_pid("a");
  const auto head = head_pid();
  std::cout << drive({"many_tasks", "3000"}).out;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
  const auto agent_before = resident_bytes(agent);
  const auto head_before = resident_bytes(head);
  const auto agent_files = descriptors(agent);
  std::cout << drive({"many_tasks", "10000"}, Milliseconds(150'000)).out;
  std::cout << drive({"many_calls", "10000"}, Milliseconds(150'000)).out;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
  constexpr std::size_t slack = 8u << 20;
  EXPECT_LT(resident_bytes(agent), agent_before + slack);
  EXPECT_LT(resident_bytes(head), head_before + slack);
  EXPECT_LE(descriptors(agent), agent_files + 2);
}

TEST_F(OneNode, RunsTwoHundredActorsAtOnce) {
  start_head();
  std::cout << drive({"many_actors", "200"}, Milliseconds(120'000)).out;
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
}

}  // namespace
}  // namespace mobula::e2e
