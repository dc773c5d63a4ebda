#include "client/console/json_msgpack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mobula::internal::runtime::console {
namespace {

std::vector<std::uint8_t> written(const Json& json) {
  const JsonMsgpack encoded(json);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(encoded.bytes().data());
  return {first, first + encoded.bytes().size()};
}

Result<Json> read(const std::vector<std::uint8_t>& bytes) {
  return json_of_msgpack(std::as_bytes(std::span(bytes)));
}

// Integers on both sides of each change of their encoding.
std::vector<Json> integers() {
  std::vector<Json> all;
  for (int bits = 0; bits < 64; ++bits) {
    const auto power = std::uint64_t{1} << bits;
    for (const std::uint64_t each : {power - 1, power, power + 1}) {
      all.emplace_back(each);
      const auto negative = static_cast<std::int64_t>(~each);
      if (negative < 0) all.emplace_back(negative);
    }
  }
  all.emplace_back(std::numeric_limits<std::uint64_t>::max());
  all.emplace_back(std::numeric_limits<std::int64_t>::min());
  return all;
}

TEST(JsonMsgpack, WritesIntegersAsLibrary) {
  for (const Json& each : integers()) EXPECT_EQ(written(each), Json::to_msgpack(each)) << each;
}

TEST(JsonMsgpack, ReadsWhatLibraryWrites) {
  for (const Json& each : integers()) {
    const auto found = read(Json::to_msgpack(each));
    ASSERT_TRUE(found) << each;
    EXPECT_EQ(*found, each);
    EXPECT_TRUE(found->is_number_integer());
  }
}

TEST(JsonMsgpack, KeepsTypeOfEveryValue) {
  const std::vector<Json> values{nullptr,
                                 true,
                                 false,
                                 0.0,
                                 3.0,
                                 -1e308,
                                 std::numeric_limits<double>::denorm_min(),
                                 std::numeric_limits<double>::infinity(),
                                 "",
                                 "text",
                                 Json::array(),
                                 Json::array({1, "two", nullptr}),
                                 Json::object(),
                                 Json::object({{"a", {1, 2}}}),
                                 Json::binary({0, 255})};
  for (const Json& each : values) {
    const auto found = read(written(each));
    ASSERT_TRUE(found) << each.type_name();
    EXPECT_EQ(*found, each);
    EXPECT_EQ(found->type(), each.type());
  }
  EXPECT_TRUE(std::isnan(read(written(std::nan("")))->get<double>()));
}

// Other writers may take more bytes than a number needs.
TEST(JsonMsgpack, ReadsLongForms) {
  const std::vector<std::vector<std::uint8_t>> fives{
      {0xcc, 5}, {0xcd, 0, 5}, {0xce, 0, 0, 0, 5}, {0xcf, 0, 0, 0, 0, 0, 0, 0, 5},
      {0xd0, 5}, {0xd1, 0, 5}, {0xd2, 0, 0, 0, 5}, {0xd3, 0, 0, 0, 0, 0, 0, 0, 5}};
  for (const auto& each : fives) EXPECT_EQ(*read(each), 5);
  EXPECT_EQ(*read({0xd1, 0xff, 0xfe}), -2);
  EXPECT_EQ(*read({0xca, 0x3f, 0x80, 0, 0}), 1.0);
}

TEST(JsonMsgpack, RejectsIncompleteAndFollowedValues) {
  for (const Json& each : {Json(300), Json(-300), Json(0.5), Json(1ull << 40), Json("text")}) {
    auto bytes = written(each);
    bytes.push_back(0);
    EXPECT_FALSE(read(bytes)) << each;
    bytes.resize(bytes.size() - 2);
    EXPECT_FALSE(read(bytes)) << each;
  }
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({0xc1}));
  EXPECT_FALSE(read({0xc0, 0xc0}));
}

}  // namespace
}  // namespace mobula::internal::runtime::console
