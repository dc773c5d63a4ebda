// `mobula plan` on a real cluster: the nodes that it would launch and return.
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Planning : public ClusterTest {
 protected:
  std::string types(const std::string& idle_minutes, const std::string& target_wait = "30") {
    const std::string file = directory() + "/types.yaml";
    std::ofstream(file) << "max_workers: 12\nidle_timeout_minutes: " << idle_minutes
                        << "\ntarget_wait_seconds: " << target_wait << R"(
available_node_types:
  cpu:
    resources: {CPU: 8}
    max_workers: 9
  gpu:
    resources: {CPU: 8, GPU: 4}
    accelerator_type: H100
    max_workers: 2
)";
    return file;
  }
  Json plan(const std::string& file, int code) {
    const auto ended = mobula({"plan", "--types", file, "--json"});
    EXPECT_EQ(ended.code, code) << ended.err;
    return Json::parse(ended.out, nullptr, false);
  }
  static std::int64_t count(const Json& plan, const std::string& type) {
    for (const auto& each : plan["items"]) {
      if (each["name"] == type) return each["count"];
    }
    return 0;
  }
};

TEST_F(Planning, LaunchesForPendingAndTerminatesIdleNodes) {
  start_head({"--num-cpus", "2"});
  start_node("b", {"--num-cpus", "2", "--labels", "mobula.io/node-group=cpu"});
  Process driver = start_driver({"request_more"});
  ASSERT_TRUE(driver.prints("asked")) << driver.err();
  // Three tasks of 4 CPUs share the capacity that the group leaves on its two nodes. The actor
  // needs a GPU.
  const auto wanted = plan(types("1000", "0"), 6);
  EXPECT_EQ(count(wanted, "cpu"), 3) << wanted.dump(2);
  EXPECT_EQ(count(wanted, "gpu"), 1) << wanted.dump(2);
  ASSERT_EQ(wanted["infeasible"].size(), 1u) << wanted.dump(2);
  EXPECT_EQ(wanted["infeasible"][0]["resources"]["GPU"], 16);
  EXPECT_TRUE(wanted["waiting"].empty()) << wanted.dump(2);
  EXPECT_TRUE(wanted["terminate"].empty());
  const auto groups = list("placement-groups");
  ASSERT_TRUE(groups && groups->size() == 1u);
  EXPECT_EQ((*groups)[0]["name"], "pair");
  EXPECT_EQ((*groups)[0]["state"], "PENDING");
  driver.say("go");
  EXPECT_EQ(driver.wait().code, 0);

  ASSERT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
  EXPECT_TRUE(plan(types("1000"), 0)["terminate"].empty())
      << "the node is idle for less than the idle timeout";
  const auto idle = plan(types("0"), 0);
  EXPECT_TRUE(idle["items"].empty()) << idle.dump(2);
  ASSERT_EQ(idle["terminate"].size(), 1u) << "not the node next to the head";
  EXPECT_EQ(idle["terminate"][0]["node_id"], node_id("b"));
  const auto said = mobula({"plan", "--types", types("0")});
  EXPECT_NE(said.out.find("remove " + node_id("b") + " of cpu"), std::string::npos) << said.out;
}

TEST_F(Planning, LaunchesNothingBeyondQuota) {
  start_head({"--num-cpus", "4"});
  Process driver = start_driver({"submit_and_wait", "40", R"(--mobula-job-quota={"CPU": 1})"});
  ASSERT_TRUE(driver.prints("runs")) << driver.err();
  const auto planned = plan(types("1000", "0"), 0);
  EXPECT_TRUE(planned["items"].empty()) << planned.dump(2);
  ASSERT_EQ(planned["waiting"].size(), 1u) << planned.dump(2);
  EXPECT_EQ(planned["waiting"][0]["count"], 39);
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0);
}

// The queue takes 100 s on the present CPUs, and several times that on a busy machine.
TEST_F(Planning, LaunchesNothingForShortBacklog) {
  start_head({"--num-cpus", "4"});
  Process driver = start_driver({"submit_short_tasks", "2000", "200"});
  ASSERT_TRUE(driver.prints("runs")) << driver.err();
  const auto planned = plan(types("1000", "1000"), 0);
  EXPECT_TRUE(planned["items"].empty()) << planned.dump(2);
  EXPECT_GT(count(plan(types("1000", "0"), 0), "cpu"), 0) << "the tasks still wait";
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0);
}

TEST_F(Planning, RejectsInvalidFileWithLineNumber) {
  start_head();
  std::ofstream(directory() + "/bad.yaml") << "max_workers: 3\navailable_node_types:\n  a: 7\n";
  const auto ended = mobula({"plan", "--types", directory() + "/bad.yaml"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("bad.yaml:3: available_node_types.a: is not a mapping"),
            std::string::npos)
      << ended.err;
  EXPECT_EQ(mobula({"plan"}).code, 2);
  EXPECT_EQ(mobula({"plan", "--types", directory() + "/none.yaml"}).code, 7);
}

}  // namespace
}  // namespace mobula::e2e
