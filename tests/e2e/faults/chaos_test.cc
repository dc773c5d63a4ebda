// Kills and stops processes for MOBULA_CHAOS_S seconds. Without the variable, runs for a few
// seconds.
#include <cstdlib>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Chaos : public ClusterTest {
 protected:
  static int seconds() {
    const char* text = std::getenv("MOBULA_CHAOS_S");
    return text == nullptr ? 5 : std::atoi(text);
  }
  static std::string seed() {
    const char* text = std::getenv("MOBULA_CHAOS_SEED");
    return text == nullptr ? "1" : text;
  }
};

TEST_F(Chaos, TensorsArriveOrFailures_LeaveNothing) {
  start_head({"--num-cpus", "2", "--resources", R"({"even": 8})"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"odd": 8})"});
  const std::size_t agent_before = descriptors(agent_pid("a")) + descriptors(agent_pid("b"));
  Process driver = start_driver({"direct_chaos", directory(), std::to_string(seconds()), seed()});
  ASSERT_TRUE(driver.prints("quiet", Milliseconds((seconds() + 240) * 1000)))
      << driver.out() << driver.err();
  std::printf("%s", driver.out().c_str());
  // No ref exists any more.
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    const auto objects = list("objects");
    return objects && objects->empty();
  })) << mobula({"list", "objects"}).out;
  driver.say("go on");
  const Ended ended = driver.wait(Milliseconds(60'000));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] { return nothing_is_held(); }));
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    return descriptors(agent_pid("a")) + descriptors(agent_pid("b")) <= agent_before + 16;
  })) << "descriptors of the agents";
}

}  // namespace
}  // namespace mobula::e2e
