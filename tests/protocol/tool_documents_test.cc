#include "protocol/messages/tool_documents.h"

#include <gtest/gtest.h>

#include "base/model/error_record.h"
#include "protocol/codec/codec.h"

namespace mobula::internal {
namespace {

using Json = nlohmann::ordered_json;

TaskError thrown(std::uint64_t task) {
  ErrorRecord error;
  error.kind = ErrorKind::task;
  error.remote_type = "std::runtime_error";
  error.text = "no\nway";
  return {TaskId::of(task), Payload(encode(error))};
}

TEST(TaskErrors, AddsErrorsToTheirTasks) {
  Json list = {{"items", {{{"task_id", TaskId::of(1).hex()}}, {{"task_id", TaskId::of(2).hex()}}}}};
  add_errors(list, {thrown(2)});
  EXPECT_FALSE(list["items"][0].contains("error_type"));
  EXPECT_EQ(list["items"][1]["error_type"], "TaskError");
  EXPECT_EQ(list["items"][1]["error_message"], "std::runtime_error: no\nway");
}

TEST(TaskErrors, AddsErrorToExplanation) {
  Json explanation = {{"subject", {{"task_id", TaskId::of(1).hex()}}},
                      {"reason", "it failed"},
                      {"items", Json::array()}};
  add_errors(explanation, {thrown(1)});
  EXPECT_EQ(explanation["reason"], "it failed; TaskError: std::runtime_error: no\nway");
  EXPECT_EQ(explanation["subject"]["error_type"], "TaskError");
}

TEST(TaskErrors, OmitsBytesThatAreNoError) {
  Json task = {{"task_id", TaskId::of(1).hex()}};
  add_errors(task, {{TaskId::of(1), Payload(Bytes{std::byte{0xc1}})}});
  EXPECT_EQ(task.size(), 1u);
}

TEST(ToolDocuments, AcceptsIdPrefixesInFilters) {
  DocumentJson list = {
      {"items",
       {{{"job_id", "abcd0001"}, {"name", "abcdef"}}, {{"job_id", "abce0002"}, {"name", "abcd"}}}}};
  DocumentJson same = list;
  retain_matching(list, {{"job_id", "abcd"}});
  ASSERT_EQ(list["items"].size(), 1u);
  EXPECT_EQ(list["items"][0]["job_id"], "abcd0001");
  retain_matching(same, {{"name", "abcd"}});
  ASSERT_EQ(same["items"].size(), 1u) << "a name is compared whole";
  EXPECT_EQ(filters_for_owners("tasks", {{"job_id", "abcd"}, {"state", "RUNNING"}}),
            R"({"state":"RUNNING"})");
  const std::string whole(32, 'a');
  EXPECT_TRUE(owners_apply("tasks", "job_id", whole));
}

}  // namespace
}  // namespace mobula::internal
