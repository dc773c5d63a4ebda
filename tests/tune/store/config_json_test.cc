#include "tune/store/config_json.h"

#include <gtest/gtest.h>

#include <limits>

namespace mobula::internal::tune {
namespace {

TEST(ConfigJson, RoundTripsEveryKind) {
  const Config config{{"lr", 1e-5},   {"whole", 2.0},  {"layers", std::int64_t{1} << 60},
                      {"bias", true}, {"opt", "a\"b"}, {"model/depth", -3}};
  const std::string json = to_json(config);
  EXPECT_EQ(json,
            R"({"lr":1e-05,"whole":2.0,"layers":1152921504606846976,"bias":true,"opt":"a\"b",)"
            R"("model/depth":-3})");
  EXPECT_EQ(config_of_json(json).value(), config);
}

TEST(ConfigJson, WritesTextForNumbersThatAreNotFinite) {
  EXPECT_EQ(to_json(Value(std::numeric_limits<double>::quiet_NaN())), "\"nan\"");
  EXPECT_EQ(to_json(Value(-std::numeric_limits<double>::infinity())), "\"-inf\"");
}

TEST(ConfigJson, ReplacesInvalidText) {
  EXPECT_EQ(config_of_json(to_json(Config{{"x", "\xff"}})).value().get("x").text(), "\xef\xbf\xbd");
}

TEST(ConfigJson, RejectsTextThatIsNoObject) {
  for (const char* text : {"", "[1]", "{\"a\":", "3"}) {
    EXPECT_EQ(config_of_json(text).error().code, ErrorCode::corrupt) << text;
  }
}

}  // namespace
}  // namespace mobula::internal::tune
