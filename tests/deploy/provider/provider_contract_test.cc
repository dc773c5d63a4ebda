#include "deploy/fleet/provider_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProviderRequest request_of(ProviderCall call, const std::vector<std::string>& names = {}) {
  ProviderRequest request{.call = call, .cluster = "lab", .cluster_id = "3f2a", .head = "h:1"};
  for (const auto& each : names) request.instances.push_back({.name = each, .ref = "old"});
  return request;
}

std::vector<std::string> names_of(const ProviderReply& reply) {
  std::vector<std::string> names;
  for (const auto& each : reply.instances) names.push_back(each.name);
  return names;
}

std::string warnings_of(const ProviderReply& reply) {
  std::string all;
  for (const auto& each : reply.warnings) all += each + "\n";
  return all;
}

TEST(ProviderContract, RequestSurvivesText) {
  auto request = request_of(ProviderCall::launch);
  request.settings = {{"type", "slurm"}, {"backlog", 2}};
  request.instances.push_back({.name = "mobula-3f2a-7",
                               .type = "gpu",
                               .ticket = "secret",
                               .labels = {{"mobula.io/instance", "mobula-3f2a-7"}},
                               .resources = {{"CPU", 8}, {"GPU", 0.5}},
                               .config = {{"flags", {"--grace", "1"}}}});
  const auto read = parse_provider_request(text_of(request));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->call, ProviderCall::launch);
  EXPECT_EQ(read->cluster_id, "3f2a");
  EXPECT_EQ(read->settings, request.settings);
  ASSERT_EQ(read->instances.size(), 1u);
  EXPECT_EQ(read->instances[0].ticket, "secret");
  EXPECT_EQ(read->instances[0].labels, request.instances[0].labels);
  EXPECT_EQ(read->instances[0].resources, request.instances[0].resources);
  EXPECT_EQ(read->instances[0].config, request.instances[0].config);
}

TEST(ProviderContract, RejectsFaultyRequest) {
  for (const char* text :
       {"", "[]", "{", R"({"version": 2, "call": "list", "cluster_id": "a"})",
        R"({"version": 1, "call": "lst", "cluster_id": "a"})",
        R"({"version": 1, "call": "list", "cluster_id": "../a"})",
        R"({"version": 1, "call": "launch", "cluster_id": "a"})",
        R"({"version": 1, "call": "launch", "cluster_id": "a", "instances": [{"name": "A"}]})",
        R"({"version": 1, "call": "launch", "cluster_id": "a", "instances": [{"name": "a/b"}]})"}) {
    const auto read = parse_provider_request(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(read.error().text, HasSubstr("read the request: ")) << text;
  }
}

TEST(ProviderContract, ReplySurvivesText) {
  ProviderReply reply{.call = ProviderCall::list};
  reply.instances = {{.name = "a",
                      .ref = "17",
                      .type = "gpu",
                      .state = ProviderState::pending,
                      .reason = "QOSMaxJobsPerUserLimit",
                      .ends_at = 1'800'000'000}};
  const auto read = judge_provider_reply(request_of(ProviderCall::list), text_of(reply));
  ASSERT_EQ(read.instances.size(), 1u);
  EXPECT_EQ(read.instances[0].ref, "17");
  EXPECT_EQ(read.instances[0].type, "gpu");
  EXPECT_EQ(read.instances[0].state, ProviderState::pending);
  EXPECT_EQ(read.instances[0].reason, "QOSMaxJobsPerUserLimit");
  EXPECT_EQ(read.instances[0].ends_at, 1'800'000'000);
  EXPECT_TRUE(read.complete);
}

TEST(ProviderContract, Garbage_FailsEachInstance) {
  for (const char* text : {"", "no json", "[1]", "{}", R"({"instances": 3})", "\xff\xfe{"}) {
    const auto reply = judge_provider_reply(request_of(ProviderCall::launch, {"a", "b"}), text);
    ASSERT_TRUE(reply.error) << text;
    EXPECT_EQ(reply.error->kind, FailureKind::transient);
    EXPECT_THAT(reply.error->text, HasSubstr("provider launch: "));
    ASSERT_EQ(reply.instances.size(), 2u);
    EXPECT_TRUE(reply.instances[1].error);
    EXPECT_FALSE(judge_provider_reply(request_of(ProviderCall::list), text).complete);
  }
}

TEST(ProviderContract, ReadsKindsOfFailures) {
  const auto reply = judge_provider_reply(request_of(ProviderCall::launch, {"a", "b", "c"}),
                                          R"({"instances": [
    {"name": "a", "error": {"kind": "capacity", "text": "no\nroom", "retry_after_s": 30}},
    {"name": "b", "error": {"kind": "hungry", "text": "x", "retry_after_s": 1e300}},
    {"name": "c", "error": "all wrong"}]})");
  ASSERT_EQ(reply.instances.size(), 3u);
  EXPECT_EQ(reply.instances[0].error->kind, FailureKind::capacity);
  EXPECT_EQ(reply.instances[0].error->text, "no room");
  EXPECT_EQ(reply.instances[0].error->retry_after, Duration(30s));
  EXPECT_EQ(reply.instances[1].error->kind, FailureKind::transient);
  EXPECT_EQ(reply.instances[1].error->retry_after, Duration(std::chrono::hours(24)));
  EXPECT_EQ(reply.instances[2].error->text, "all wrong");
}

TEST(ProviderContract, LiesInLaunch_FailTheInstance) {
  const auto reply =
      judge_provider_reply(request_of(ProviderCall::launch, {"a", "b", "c", "d"}),
                           R"({"instances": [{"name": "a", "ref": "1"}, {"name": "a", "ref": "2"},
    {"name": "b", "ref": "1"}, {"name": "c", "ref": 7}, {"name": "stranger", "ref": "9"}, 3]})");
  EXPECT_THAT(names_of(reply), ElementsAre("a", "b", "c", "d"));
  EXPECT_FALSE(reply.instances[0].error);
  EXPECT_EQ(reply.instances[0].ref, "1");
  EXPECT_THAT(reply.instances[1].error->text, HasSubstr("another instance has the ref 1"));
  EXPECT_THAT(reply.instances[2].error->text, HasSubstr("no valid ref"));
  EXPECT_THAT(reply.instances[3].error->text, HasSubstr("the reply of launch lacks d"));
  EXPECT_THAT(warnings_of(reply), HasSubstr("'stranger'"));
  EXPECT_THAT(warnings_of(reply), HasSubstr("two replies have the name a"));
}

TEST(ProviderContract, LiesInList_MakeItIncomplete) {
  const auto good = std::string(R"({"name": "a", "ref": "1", "state": "running"})");
  for (const char* row :
       {R"({"name": "a", "ref": "2", "state": "running"})",
        R"({"name": "b", "ref": "1", "state": "running"})", R"({"name": "b", "state": "running"})",
        R"({"name": "b", "ref": "2", "state": "flying"})",
        R"({"name": "b c", "ref": "2", "state": "running"})",
        R"({"name": "b", "ref": "2", "state": "running", "ends_at": -1})", "null"}) {
    const auto reply = judge_provider_reply(request_of(ProviderCall::list),
                                            R"({"instances": [)" + good + "," + row + "]}");
    EXPECT_FALSE(reply.error) << row;
    EXPECT_FALSE(reply.complete) << row;
    EXPECT_THAT(names_of(reply), ElementsAre("a")) << row;
    EXPECT_THAT(warnings_of(reply), HasSubstr("provider list: ")) << row;
  }
  EXPECT_FALSE(judge_provider_reply(request_of(ProviderCall::list),
                                    R"({"complete": false, "instances": []})")
                   .complete);
}

TEST(ProviderContract, EndNeedsNoRef) {
  const auto reply =
      judge_provider_reply(request_of(ProviderCall::end, {"a"}), R"({"instances":[{"name":"a"}]})");
  ASSERT_EQ(reply.instances.size(), 1u);
  EXPECT_FALSE(reply.instances[0].error);
  EXPECT_EQ(reply.instances[0].ref, "old");
}

TEST(ProviderContract, DescribeChecksVersion) {
  const auto request = request_of(ProviderCall::describe);
  const auto good =
      judge_provider_reply(request, R"({"version": 1, "provider": "mine", "max_pending": 4})");
  EXPECT_FALSE(good.error);
  EXPECT_EQ(good.provider, "mine");
  EXPECT_EQ(good.max_pending, 4);
  const auto other = judge_provider_reply(request, R"({"version": 2})");
  ASSERT_TRUE(other.error);
  EXPECT_EQ(other.error->kind, FailureKind::invalid);
  EXPECT_THAT(other.error->text, HasSubstr("version 2; this program needs 1"));
}

TEST(ProviderContract, FindsProgramOfSettings) {
  using Json = nlohmann::ordered_json;
  EXPECT_THAT(*provider_command({{"type", "slurm"}}, "/bin/mobula"),
              ElementsAre("/bin/mobula", "provider", "slurm"));
  EXPECT_THAT(*provider_command({{"type", "command"}, {"command", {"prog", "-x"}}}),
              ElementsAre("prog", "-x"));
  for (const Json& wrong : {Json{{"type", "cloud"}}, Json::object(), Json::array(),
                            Json{{"type", "command"}}, Json{{"type", "command"}, {"command", {1}}}})
    EXPECT_FALSE(provider_command(wrong)) << wrong;
}

}  // namespace
}  // namespace mobula::internal::fleet
