#include "cli/explain_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mobula::internal::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(ExplainRequest, HasOneNameForEverything) {
  const auto checked = checked_request(R"({"num_cpus": 0.5, "resources": {"gpu": 2, "shuttle": 1.5}})");
  ASSERT_TRUE(checked.ok()) << checked.error().text;
  const Json request = Json::parse(*checked);
  EXPECT_EQ(request["num_cpus"], 0.5);
  EXPECT_EQ(request["num_gpus"], 2);
  EXPECT_EQ(request["resources"], (Json{{"shuttle", 1.5}}));
}

TEST(ExplainRequest, WhatSaysNothingWantsACpu) {
  const auto checked = checked_request("{}");
  ASSERT_TRUE(checked.ok()) << checked.error().text;
  EXPECT_EQ(Json::parse(*checked)["num_cpus"], 1);
}

TEST(ExplainRequest, LabelsAndNodesGoThroughAsTheyAre) {
  const auto checked = checked_request(
      R"json({"label_selector": {"zone": "!in(a,b)"}, "fallback_selectors": [{"zone": "a"}, {}], "node_id": "ab"})json");
  ASSERT_TRUE(checked.ok()) << checked.error().text;
  const Json request = Json::parse(*checked);
  EXPECT_EQ(request["label_selector"]["zone"], "!in(a,b)");
  EXPECT_EQ(request["fallback_selectors"].size(), 2u);
  EXPECT_EQ(request["node_id"], "ab");
}

TEST(ExplainRequest, IsRefusedWhereSubmissionWouldBe) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"({"num_gpus": 1.5})", "num_gpus"},
      {R"({"num_gpus": 1, "resources": {"neuron_cores": 1}})", "neuron_cores"},
      {R"({"num_gpus": 1, "resources": {"GPU": 1}})", "num_gpus"},
      {R"({"resources": {"TPU": 3}})", "TPU"},
      {R"({"resources": {"cpu": 1}})", "num_cpus"},
      {R"({"num_cpus": 0.00001})", "num_cpus"},
      {R"({"num_cpus": -1})", "num_cpus"},
      {R"({"num_cpus": "one"})", "num_cpus"},
      {R"({"memory": 1.5})", "memory"},
      {R"({"memory": 18446744073709551615})", "memory"},
      {R"({"label_selector": {"zone": "!"}})", "label_selector"},
      {R"({"node_id": ""})", "NodeAffinity"},
      {R"({"num_cpu": 1})", "num_cpu"},
      {R"({"num_cpus": )", "JSON"},
      {R"([1])", "JSON"}};
  for (const auto& [text, named] : refused) {
    const auto checked = checked_request(text);
    ASSERT_FALSE(checked.ok()) << text;
    EXPECT_EQ(checked.error().code, ErrorCode::invalid_argument) << text;
    EXPECT_THAT(checked.error().text, HasSubstr(named)) << text;
  }
}

}  // namespace
}  // namespace mobula::internal::cli
