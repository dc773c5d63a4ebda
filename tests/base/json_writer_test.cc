#include "base/text/json_writer.h"

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

TEST(JsonWriter, RefusesInvalidUtf8WhenStrict) {
  EXPECT_EQ(strict_json_text(nlohmann::json{{"a", "\xc3\xa9"}}), "{\"a\":\"\xc3\xa9\"}");
  EXPECT_EQ(strict_json_text(nlohmann::json{{"a", "\xff"}}), std::nullopt);
}

}  // namespace
}  // namespace mobula::internal
