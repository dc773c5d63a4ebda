#include "protocol/codec/json_writer.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

TEST(JsonWriter, WritesOneLineOrIndents) {
  const nlohmann::ordered_json json = {{"b", 1}, {"a", {true, nullptr}}};
  EXPECT_EQ(json_text(json), R"({"b":1,"a":[true,null]})");
  EXPECT_EQ(json_text(nlohmann::json{{"a", "x\"y"}}, 2), "{\n  \"a\": \"x\\\"y\"\n}");
}

TEST(JsonWriter, ReplacesInvalidUtf8) {
  const nlohmann::ordered_json json = {{"path", "/tmp/\xff/x"}};
  EXPECT_EQ(json_text(json), "{\"path\":\"/tmp/\xef\xbf\xbd/x\"}");
}

}  // namespace
}  // namespace mobula::internal
