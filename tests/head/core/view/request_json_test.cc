// Tests the JSON of `explain` requests against the rules of submission.
#include "head/core/view/requests/request_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mobula::internal::head {
namespace {

using testing::HasSubstr;

Request request(const std::string& text) {
  auto parsed = shape_from_json(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().text;
  return parsed.ok() ? std::get<ParsedRequest>(*parsed).request : Request();
}

GroupSpec group(const std::string& text) {
  auto parsed = shape_from_json(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().text;
  return parsed.ok() ? std::get<GroupSpec>(*parsed) : GroupSpec();
}

void expect_refused(const std::vector<std::pair<std::string, std::string>>& refused) {
  for (const auto& [text, named] : refused) {
    const auto parsed = shape_from_json(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument) << text;
    EXPECT_THAT(parsed.error().text, HasSubstr(named)) << text;
  }
}

TEST(RequestJson, NormalizesResourceNames) {
  const auto read = request(R"({"num_cpus": 0.5, "resources": {"gpu": 2, "shuttle": 1.5}})");
  EXPECT_EQ(read.resources.to_string(), "CPU 0.5, GPU 2, shuttle 1.5");
}

TEST(RequestJson, DefaultsToOneCpu) { EXPECT_EQ(request("{}").resources.to_string(), "CPU 1"); }

TEST(RequestJson, ReadsBytesExactly) {
  EXPECT_EQ(request(R"({"gpu_memory": 8e9})").gpu_memory, 8'000'000'000);
  EXPECT_EQ(request(R"({"memory": 100000000000000})").resources.get("memory"),
            Quantity::whole(100'000'000'000'000));
}

TEST(RequestJson, KeepsLabelsAndNodeIds) {
  const auto read = request(
      R"json({"label_selector": {"zone": "!in(a,b)"}, "fallback_selectors": [{"zone": "a"}, {}],
              "node_id": "000102030405060708090a0b0c0d0e0f"})json");
  EXPECT_EQ(read.label_selector.at("zone"), "!in(a,b)");
  EXPECT_EQ(read.fallback_selectors.size(), 2u);
  EXPECT_EQ(std::get<NodeAffinityStrategy>(read.strategy).node.hex(),
            "000102030405060708090a0b0c0d0e0f");
}

TEST(RequestJson, AcceptsAllStrategies) {
  EXPECT_TRUE(
      std::holds_alternative<DefaultStrategy>(request(R"({"scheduling": "Default"})").strategy));
  EXPECT_TRUE(
      std::holds_alternative<SpreadStrategy>(request(R"({"scheduling": "Spread"})").strategy));
  const std::string node = R"({"scheduling": {"node_id": "000102030405060708090a0b0c0d0e0f")";
  const auto hard = std::get<NodeAffinityStrategy>(request(node + "}}").strategy);
  EXPECT_EQ(hard.node.hex(), "000102030405060708090a0b0c0d0e0f");
  EXPECT_FALSE(hard.soft);
  EXPECT_TRUE(std::get<NodeAffinityStrategy>(request(node + R"(, "soft": true}})").strategy).soft);
}

TEST(RequestJson, AcceptsPriorityAndJob) {
  EXPECT_EQ(request(R"({"priority": -1000})").priority, -1000);
  EXPECT_EQ(group(R"({"bundles": [{"num_cpus": 1}], "priority": 1000})").priority, 1000);
  const auto parsed = shape_from_json(R"({"job_id": "00000000000000000000000000000007"})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_EQ(std::get<ParsedRequest>(*parsed).job, JobId::of(7));
  EXPECT_EQ(
      group(R"({"bundles": [{"num_cpus": 1}], "job_id": "00000000000000000000000000000007"})").job,
      JobId::of(7));
}

TEST(RequestJson, RejectsWhatSubmissionRejects) {
  expect_refused(
      {{R"({"num_gpus": 1.5})", "num_gpus"},
       {R"({"num_gpus": 1, "resources": {"neuron_cores": 1}})", "neuron_cores"},
       {R"({"num_gpus": 1, "resources": {"GPU": 1}})", "num_gpus"},
       {R"({"resources": {"gpu": 1, "GPU": 1}})", "num_gpus is given once"},
       {R"({"resources": {"gpu": 1.5}})", "below 1 or whole"},
       {R"({"resources": {"TPU": 3}})", "TPU"},
       {R"({"resources": {"TPU": 0.5}})", "TPU"},
       {R"({"resources": {"cpu": 1}})", "num_cpus"},
       {R"({"resources": {"": 1}})", "a resource has a name"},
       {R"({"resources": {"Memory": 1}})", "separate fields"},
       {R"({"resources": {"bundle": 1}})", "belongs to the runtime"},
       {R"({"resources": {"a\u0001": 1}})", "control characters"},
       {R"({"resources": {"accelerator_type:": 1}})", "accelerator type has a name"},
       {R"({"accelerator_type": "H100", "resources": {"accelerator_type:A100": 1}})",
        "one accelerator type"},
       {R"({"resources": 1})", "is not an object"},
       {R"({"num_cpus": 0.00001})", "num_cpus"},
       {R"({"num_cpus": 1e15})", "num_cpus"},
       {R"({"num_cpus": 1e400})", "has a number that is too large"},
       {R"({"bundles": [{"num_cpus": -1e999}]})", "has a number that is too large"},
       {R"({"num_cpus": NaN})", "is not JSON: byte 14 cannot be read"},
       {R"({"scheduling": "SPREAD"})", R"(is not one of "Default", "Spread")"},
       {R"({"scheduling": 1})", R"(is not one of "Default", "Spread")"},
       {R"({"scheduling": {}})", "scheduling names a node by its node_id"},
       {R"({"scheduling": {"node_id": "ab"}})", "scheduling.node_id is not an id"},
       {R"({"scheduling": {"node_id": "000102030405060708090a0b0c0d0e0f", "soft": 1}})",
        "scheduling.soft is neither true nor false"},
       {R"({"scheduling": {"nodes": 1}})",
        "scheduling.nodes is not known; known are node_id, soft"},
       {R"({"scheduling": "Spread", "node_id": "000102030405060708090a0b0c0d0e0f"})",
        "give one of them"},
       {R"({"num_cpus": 1, "num_gpus": 1, "num_cpus": 2})", "num_cpus is given twice"},
       {R"({"resources": {"a": 1, "a": 2}})", "a is given twice"},
       {R"({"priority": 1001})", "priority is 1001; it is from -1000 to 1000"},
       {R"({"priority": -1001})", "priority is -1001"},
       {R"({"priority": 18446744073709551615})", "priority is 18446744073709551615"},
       {R"({"priority": 0.5})", "priority is not a whole number"},
       {R"({"priority": "high"})", "priority is not a whole number"},
       {R"({"job_id": "none"})", "job_id is not an id"},
       {R"({"num_cpus": -1})", "num_cpus"},
       {R"({"num_cpus": "one"})", "num_cpus"},
       {R"({"num_cpus": null})", "num_cpus"},
       {R"({"memory": 1.5})", "memory"},
       {R"({"memory": -1})", "memory"},
       {R"({"memory": 18446744073709551615})", "memory"},
       {R"({"label_selector": {"zone": "!"}})", "label_selector"},
       {R"json({"label_selector": {"zone": "in()"}})json", "label_selector"},
       {R"({"label_selector": {"Example.com/zone": "a"}})", "domain name"},
       {R"({"label_selector": {"zone": 1}})", "is not a string"},
       {R"({"fallback_selectors": [{"a b": "c"}]})", "fallback_selectors[0]"},
       {R"({"fallback_selectors": [{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]})",
        "at most 16"},
       {R"({"node_id": ""})", "node_id"},
       {R"({"node_id": "ab"})", "node_id"},
       {R"({"num_cpu": 1})",
        "num_cpu is not known; known are num_cpus, num_gpus, gpu_memory, memory, resources, "
        "accelerator_type, label_selector, fallback_selectors, node_id, scheduling, "
        "priority, job_id"},
       {R"({"num_cpus": )", "is not JSON: byte 14"},
       {R"([1])", "JSON"}});
}

TEST(RequestJson, GroupBundles_HaveNoDefaultCpu) {
  const auto read = group(
      R"({"bundles": [{"num_gpus": 1}, {"num_cpus": 2, "gpu_memory": 1000, "label_selector": {"zone": "a"}}],
                             "strategy": "STRICT_PACK"})");
  ASSERT_EQ(read.bundles.size(), 2u);
  EXPECT_EQ(read.strategy, GroupStrategy::strict_pack);
  EXPECT_EQ(read.bundles[0].resources.to_string(), "GPU 1");
  EXPECT_EQ(read.bundles[1].resources.to_string(), "CPU 2");
  EXPECT_EQ(read.bundles[1].gpu_memory, 1000);
  EXPECT_EQ(read.bundles[1].label_selector.at("zone"), "a");
  EXPECT_EQ(group(R"({"bundles": [{"num_cpus": 1}]})").strategy, GroupStrategy::pack);
}

TEST(RequestJson, RejectsGroupThatCreationRejects) {
  std::string many = R"({"num_cpus":1})";
  for (int i = 0; i < 1000; ++i) many += R"(,{"num_cpus":1})";
  expect_refused(
      {{R"({"bundles": []})", "1 to 1000 bundles"},
       {R"({"bundles": {}})", "1 to 1000 bundles"},
       {R"({"bundles": [)" + many + "]}", "this one has 1001"},
       {R"({"bundles": [{"num_cpus": 1}, {}]})",
        "bundles[1]: request: bundle: a bundle requests a resource"},
       {R"({"bundles": [{"num_gpus": 0}]})", "a bundle requests a resource"},
       {R"({"bundles": [{"accelerator_type": "H100"}]})", "a bundle requests a resource"},
       {R"({"bundles": [1]})", "bundles[0]"},
       {R"({"bundles": [{"num_gpus": 1.5}]})", "below 1 or whole"},
       {R"({"bundles": [{"num_gpus": 1, "resources": {"neuron_cores": 1}}]})", "neuron_cores"},
       {R"({"bundles": [{"num_cpus": 1, "node_id": "ab"}]})", "node_id is not known"},
       {R"({"bundles": [{"num_cpus": 1}], "strategy": "strict"})", "STRICT_SPREAD"},
       {R"({"bundles": [{"num_cpus": 1}], "strategy": 1})", "STRICT_SPREAD"},
       {R"({"bundles": [{"num_cpus": 1}], "priority": 1001})", "priority is 1001"},
       {R"({"bundles": [{"num_cpus": 1, "priority": 1}]})", "priority is not known"},
       {R"({"bundles": [{"num_cpus": 1}], "num_gpus": 1})", "not known with bundles"}});
}

}  // namespace
}  // namespace mobula::internal::head
