// What tools ask `explain` about, under the rules of submission.
#include "head/core/request_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mobula::internal::head {
namespace {

using testing::HasSubstr;

Request request(const std::string& text) {
  auto asked = asked_from_json(text);
  EXPECT_TRUE(asked.ok()) << asked.error().text;
  return asked.ok() ? std::get<Request>(*asked) : Request();
}

GroupSpec group(const std::string& text) {
  auto asked = asked_from_json(text);
  EXPECT_TRUE(asked.ok()) << asked.error().text;
  return asked.ok() ? std::get<GroupSpec>(*asked) : GroupSpec();
}

void expect_refused(const std::vector<std::pair<std::string, std::string>>& refused) {
  for (const auto& [text, named] : refused) {
    const auto asked = asked_from_json(text);
    ASSERT_FALSE(asked.ok()) << text;
    EXPECT_EQ(asked.error().code, ErrorCode::invalid_argument) << text;
    EXPECT_THAT(asked.error().text, HasSubstr(named)) << text;
  }
}

TEST(RequestJson, HasOneNameForEverything) {
  const auto read = request(R"({"num_cpus": 0.5, "resources": {"gpu": 2, "shuttle": 1.5}})");
  EXPECT_EQ(read.resources.to_string(), "CPU 0.5, GPU 2, shuttle 1.5");
}

TEST(RequestJson, WhatSaysNothingWantsACpu) { EXPECT_EQ(request("{}").resources.to_string(), "CPU 1"); }

TEST(RequestJson, BytesAreWholeHoweverTheyAreWritten) {
  EXPECT_EQ(request(R"({"gpu_memory": 8e9})").gpu_memory, 8'000'000'000);
  EXPECT_EQ(request(R"({"memory": 100000000000000})").resources.get("memory"), Quantity::whole(100'000'000'000'000));
}

TEST(RequestJson, LabelsAndNodesGoThroughAsTheyAre) {
  const auto read = request(
      R"json({"label_selector": {"zone": "!in(a,b)"}, "fallback_selectors": [{"zone": "a"}, {}],
              "node_id": "000102030405060708090a0b0c0d0e0f"})json");
  EXPECT_EQ(read.label_selector.at("zone"), "!in(a,b)");
  EXPECT_EQ(read.fallback_selectors.size(), 2u);
  EXPECT_EQ(std::get<NodeAffinityStrategy>(read.strategy).node.hex(), "000102030405060708090a0b0c0d0e0f");
}

TEST(RequestJson, IsRefusedWhereSubmissionWouldBe) {
  expect_refused({{R"({"num_gpus": 1.5})", "num_gpus"},
                  {R"({"num_gpus": 1, "resources": {"neuron_cores": 1}})", "neuron_cores"},
                  {R"({"num_gpus": 1, "resources": {"GPU": 1}})", "num_gpus"},
                  {R"({"resources": {"gpu": 1, "GPU": 1}})", "num_gpus is given once"},
                  {R"({"resources": {"gpu": 1.5}})", "below 1 or whole"},
                  {R"({"resources": {"TPU": 3}})", "TPU"},
                  {R"({"resources": {"TPU": 0.5}})", "TPU"},
                  {R"({"resources": {"cpu": 1}})", "num_cpus"},
                  {R"({"resources": {"": 1}})", "a resource has a name"},
                  {R"({"resources": {"Memory": 1}})", "fields of their own"},
                  {R"({"resources": {"bundle": 1}})", "belongs to the runtime"},
                  {R"({"resources": {"a\u0001": 1}})", "control characters"},
                  {R"({"resources": {"accelerator_type:": 1}})", "accelerator type has a name"},
                  {R"({"accelerator_type": "H100", "resources": {"accelerator_type:A100": 1}})", "one accelerator type"},
                  {R"({"resources": 1})", "is not an object"},
                  {R"({"num_cpus": 0.00001})", "num_cpus"},
                  {R"({"num_cpus": 1e15})", "num_cpus"},
                  {R"({"num_cpus": 1e400})", "JSON"},
                  {R"({"num_cpus": NaN})", "JSON"},
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
                  {R"({"fallback_selectors": [{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]})", "at most 16"},
                  {R"({"node_id": ""})", "node_id"},
                  {R"({"node_id": "ab"})", "node_id"},
                  {R"({"num_cpu": 1})", "num_cpu is not known; known are num_cpus, num_gpus, gpu_memory, memory, resources, "
                                        "accelerator_type, label_selector, fallback_selectors, node_id"},
                  {R"({"num_cpus": )", "JSON"},
                  {R"([1])", "JSON"}});
}

TEST(RequestJson, AGroupHasBundlesWithoutACpuOfTheirOwn) {
  const auto read = group(R"({"bundles": [{"num_gpus": 1}, {"num_cpus": 2, "gpu_memory": 1000, "label_selector": {"zone": "a"}}],
                             "strategy": "STRICT_PACK"})");
  ASSERT_EQ(read.bundles.size(), 2u);
  EXPECT_EQ(read.strategy, GroupStrategy::strict_pack);
  EXPECT_EQ(read.bundles[0].resources.to_string(), "GPU 1");
  EXPECT_EQ(read.bundles[1].resources.to_string(), "CPU 2");
  EXPECT_EQ(read.bundles[1].gpu_memory, 1000);
  EXPECT_EQ(read.bundles[1].label_selector.at("zone"), "a");
  EXPECT_EQ(group(R"({"bundles": [{"num_cpus": 1}]})").strategy, GroupStrategy::pack);
}

TEST(RequestJson, AGroupIsRefusedWhereItsCreationWouldBe) {
  std::string many = R"({"num_cpus":1})";
  for (int i = 0; i < 1000; ++i) many += R"(,{"num_cpus":1})";
  expect_refused({{R"({"bundles": []})", "1 to 1000 bundles"},
                  {R"({"bundles": {}})", "1 to 1000 bundles"},
                  {R"({"bundles": [)" + many + "]}", "this one has 1001"},
                  {R"({"bundles": [{"num_cpus": 1}, {}]})", "bundles[1]: request: bundle: a bundle asks for something"},
                  {R"({"bundles": [{"num_gpus": 0}]})", "a bundle asks for something"},
                  {R"({"bundles": [{"accelerator_type": "H100"}]})", "a bundle asks for something"},
                  {R"({"bundles": [1]})", "bundles[0]"},
                  {R"({"bundles": [{"num_gpus": 1.5}]})", "below 1 or whole"},
                  {R"({"bundles": [{"num_gpus": 1, "resources": {"neuron_cores": 1}}]})", "neuron_cores"},
                  {R"({"bundles": [{"num_cpus": 1, "node_id": "ab"}]})", "node_id is not known"},
                  {R"({"bundles": [{"num_cpus": 1}], "strategy": "strict"})", "STRICT_SPREAD"},
                  {R"({"bundles": [{"num_cpus": 1}], "strategy": 1})", "STRICT_SPREAD"},
                  {R"({"bundles": [{"num_cpus": 1}], "num_gpus": 1})", "not known beside bundles"}});
}

}  // namespace
}  // namespace mobula::internal::head
