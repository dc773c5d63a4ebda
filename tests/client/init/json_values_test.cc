// Values made from JSON equal those of the program's codecs.
#include "client/console/json_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <complex>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>

#include "client/console/type_text.h"
#include "mobula/mobula.h"
#include "mobula/msgpack.h"

namespace mobula::internal::runtime::console {
namespace {

using ::testing::HasSubstr;

enum class Color : std::uint8_t { red, green };
struct Point {
  double x = 0;
  double y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};
struct Outline {
  std::string name = {};
  std::vector<Point> corners = {};
  bool closed = false;
  friend bool operator==(const Outline&, const Outline&) = default;
};
struct Tree {
  int value = 0;
  std::vector<Tree> below = {};
  friend bool operator==(const Tree&, const Tree&) = default;
};
struct Empty {
  friend bool operator==(const Empty&, const Empty&) = default;
};
// The wrong alternative comes first, and fails only at its end, at each level.
struct Wrong;
struct Nested;
using Below = std::unique_ptr<std::variant<Wrong, Nested, int>>;
struct Wrong {
  Below below;
  std::string tag;
};
struct Nested {
  Below below;
  int tag;
};
struct Endless {
  std::variant<std::unique_ptr<Endless>, int> value = {};
};
struct Named {
  int count = 0;
  std::string label = {};
  std::vector<double> values = {};
  friend bool operator==(const Named&, const Named&) = default;
  MSGPACK_DEFINE_MAP(count, label, values)
};
struct Unnamed {
  int count = 0;
  std::string label = {};
  friend bool operator==(const Unnamed&, const Unnamed&) = default;
  MSGPACK_DEFINE(count, label)
};

std::vector<std::byte> bytes_of(const detail::Outgoing& value) {
  std::vector<std::byte> bytes(value.size_bytes());
  EXPECT_TRUE(value.write(bytes));
  return bytes;
}

// A copy aligned to 64 bytes.
detail::StoredValue stored_at(const std::vector<std::byte>& bytes) {
  auto memory = std::shared_ptr<std::byte[]>(
      new (std::align_val_t{64}) std::byte[bytes.size()],
      [](std::byte* at) { ::operator delete[](at, std::align_val_t{64}); });
  std::copy(bytes.begin(), bytes.end(), memory.get());
  detail::StoredValue stored;
  stored.bytes = {memory.get(), bytes.size()};
  stored.owner = memory;
  return stored;
}

// The codec's bytes read as JSON, and the JSON's bytes read by the codec.
template <class T>
void agree(const T& value, const std::string& text) {
  const auto& type = detail::describe<T>();
  const auto written = bytes_of(detail::OutgoingValue<T>(value));
  const auto json = json_of(stored_at(written), type);
  ASSERT_TRUE(json.ok()) << text << ": " << json.error().text;
  EXPECT_EQ(json->dump(), Json::parse(text).dump()) << type_text(type);
  const Json given = Json::parse(text);
  const auto made = value_of(given, type);
  ASSERT_TRUE(made.ok()) << text << ": " << made.error().text;
  EXPECT_EQ(bytes_of(**made), written) << text;
  EXPECT_EQ(detail::decode<T>(stored_at(bytes_of(**made))), value) << text;
}

template <class T>
std::string why_not(const std::string& text) {
  const Json given = Json::parse(text);
  const auto made = value_of(given, detail::describe<T>());
  EXPECT_FALSE(made.ok()) << text;
  return made.ok() ? "" : made.error().text;
}

TEST(JsonValues, ConvertsNumbersAndText) {
  agree<int>(-5, "-5");
  agree<std::uint8_t>(255, "255");
  agree<std::int64_t>(std::numeric_limits<std::int64_t>::min(), "-9223372036854775808");
  agree<std::uint64_t>(std::numeric_limits<std::uint64_t>::max(), "18446744073709551615");
  agree<double>(0.1, "0.1");
  agree<float>(0.1f, "0.1");
  agree<bool>(true, "true");
  agree<std::string>("a \"b\" ä", R"("a \"b\" ä")");
  agree<std::string>("", R"("")");
  agree<Color>(Color::green, "1");
  agree<std::complex<double>>({1, -2}, "[1.0, -2.0]");
  agree<double>(std::numeric_limits<double>::infinity(), "\"inf\"");
}

TEST(JsonValues, ConvertsContainersOfAllLengths) {
  for (const std::size_t size : {0u, 1u, 7u, 8u, 9u, 100u}) {
    std::vector<double> numbers;
    Json json = Json::array();
    for (std::size_t i = 0; i < size; ++i) {
      numbers.push_back(static_cast<double>(i) + 0.5);
      json.push_back(numbers.back());
    }
    agree(numbers, json.dump());
    agree(std::make_pair(true, numbers), "[true," + json.dump() + "]");
  }
  agree<std::vector<std::string>>({"a", ""}, R"(["a",""])");
  agree<std::vector<bool>>({true, false}, "[true,false]");
  agree<std::deque<int>>({1, 2}, "[1,2]");
  agree<std::set<int>>({1, 2}, "[1,2]");
  agree<std::map<std::string, int>>({{"a", 1}, {"b", 2}}, R"({"a":1,"b":2})");
  agree<std::map<int, std::string>>({{1, "a"}}, R"([[1,"a"]])");
  agree<std::vector<std::vector<int>>>({{1}, {}, {2, 3}}, "[[1],[],[2,3]]");
  agree<std::array<int, 3>>({1, 2, 3}, "[1,2,3]");
  agree<std::array<std::string, 2>>({"a", "b"}, R"(["a","b"])");
  agree<std::array<double, 8>>({1, 2, 3, 4, 5, 6, 7, 8.5}, "[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.5]");
  agree<std::pair<bool, std::array<double, 8>>>({true, {1, 2, 3, 4, 5, 6, 7, 8}},
                                                "[true,[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0]]");
}

TEST(JsonValues, ConvertsOptionalAndVariantValues) {
  agree<std::optional<int>>(std::nullopt, "null");
  agree<std::optional<int>>(4, "4");
  agree<std::variant<int, std::string>>("a", R"("a")");
  agree<std::variant<int, std::string>>(7, "7");
  agree<std::tuple<int, std::string, bool>>({1, "b", false}, R"([1,"b",false])");
  agree<std::monostate>({}, "null");
}

TEST(JsonValues, ConvertsStructsToArrays) {
  agree<Point>({1, 2.5}, "[1.0,2.5]");
  agree<std::vector<Point>>({{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}},
                            "[[1.0,2.0],[3.0,4.0],[5.0,6.0],[7.0,8.0],[9.0,10.0]]");
  agree<Outline>({"line", {{0, 0}, {1, 1}}, true}, R"(["line",[[0.0,0.0],[1.0,1.0]],true])");
  agree<Tree>({1, {{2, {}}, {3, {{4, {}}}}}}, "[1,[[2,[]],[3,[[4,[]]]]]]");
  agree<Empty>({}, "null");
}

TEST(JsonValues, ConvertsTimesToSeconds) {
  agree<std::chrono::milliseconds>(std::chrono::milliseconds(1500), "1.5");
  agree<std::chrono::duration<double>>(std::chrono::duration<double>(0.25), "0.25");
}

// 2^60 tries would not end.
TEST(JsonValues, NestedVariants_AreTriedOnceEach) {
  std::string text = "1";
  for (int depth = 0; depth < 60; ++depth) text = "[" + text + ",7]";
  const Json given = Json::parse(text);
  const auto made = value_of(given, detail::describe<Below>());
  ASSERT_TRUE(made.ok()) << made.error().text;
  Below value = detail::decode<Below>(stored_at(bytes_of(**made)));
  int depth = 0;
  for (; value && value->index() == 1; ++depth) value = std::move(std::get<Nested>(*value).below);
  EXPECT_EQ(depth, 60);
  ASSERT_TRUE(value);
  EXPECT_EQ(std::get<int>(*value), 1);
}

TEST(JsonValues, RejectsDeeplyNestedJson) {
  std::string deep = "1";
  for (int depth = 0; depth < 5000; ++depth) deep = "[" + deep + ",7]";
  EXPECT_THAT(why_not<Below>(deep), HasSubstr("is not a value of any of"));
  EXPECT_THAT(why_not<Tree>(std::string(100'000, '[') + std::string(100'000, ']')),
              HasSubstr("is not"));
}

TEST(JsonValues, RecursiveVariant_UsesOtherAlternative) {
  const Json given = Json::parse("[7]");
  const auto made = value_of(given, detail::describe<Endless>());
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_EQ(std::get<1>(detail::decode<Endless>(stored_at(bytes_of(**made))).value), 7);
  EXPECT_THAT(why_not<Endless>("[\"x\"]"), HasSubstr("value of any of"));
}

// Numbers may be written in fewer bytes than by the codec, so values are compared.
template <class T>
void mean_the_same(const T& value, const std::string& text) {
  const auto& type = detail::describe<T>();
  const auto json = json_of(stored_at(bytes_of(detail::OutgoingValue<T>(value))), type);
  ASSERT_TRUE(json.ok()) << text << ": " << json.error().text;
  EXPECT_EQ(json->dump(), Json::parse(text).dump()) << type_text(type);
  const Json given = Json::parse(text);
  const auto made = value_of(given, type);
  ASSERT_TRUE(made.ok()) << text << ": " << made.error().text;
  EXPECT_EQ(detail::decode<T>(stored_at(bytes_of(**made))), value) << text;
}

TEST(JsonValues, ConvertsMsgpackTypes) {
  mean_the_same<Named>({3, "a", {1.5, 2.5}}, R"({"count":3,"label":"a","values":[1.5,2.5]})");
  mean_the_same<Named>({3, std::string(100, 'x'), {}},
                       R"({"count":3,"label":")" + std::string(100, 'x') + R"(","values":[]})");
  mean_the_same<Unnamed>({4, "b"}, R"([4,"b"])");
  mean_the_same<std::vector<Unnamed>>({{4, "b"}, {5, "c"}}, R"([[4,"b"],[5,"c"]])");
  EXPECT_EQ(why_no_json(detail::describe<std::vector<Named>>()), "");
}

TEST(JsonValues, DeeplyNestedMsgpack_IsNotShown) {
  mobula::Writer measure;
  const std::vector<char> deep(2'000'000, static_cast<char>(0x91));
  detail::write_block(measure, deep.data(), deep.size());
  std::vector<std::byte> bytes(measure.position());
  mobula::Writer out{std::span<std::byte>(bytes)};
  detail::write_block(out, deep.data(), deep.size());
  EXPECT_FALSE(json_of(stored_at(bytes), detail::describe<Named>()).ok());
}

TEST(JsonValues, NamesMismatchWithItsPath) {
  EXPECT_THAT(why_not<int>("1.5"),
              HasSubstr("1.5 is not a whole number from -2147483648 to 2147483647"));
  EXPECT_THAT(why_not<int>("2147483648"), HasSubstr("whole number"));
  EXPECT_THAT(why_not<std::uint8_t>("-1"), HasSubstr("from 0 to 255"));
  EXPECT_THAT(why_not<std::int64_t>("9223372036854775808"), HasSubstr("whole number"));
  EXPECT_THAT(why_not<std::uint64_t>("-1"), HasSubstr("whole number"));
  EXPECT_THAT(why_not<float>("1e300"), HasSubstr("too large"));
  EXPECT_THAT(why_not<bool>("1"), HasSubstr("true or false"));
  EXPECT_THAT(why_not<std::string>("1"), HasSubstr("text"));
  EXPECT_THAT(why_not<std::vector<int>>("[1, 2, \"x\"]"), HasSubstr("at [2]: \"x\""));
  EXPECT_THAT((why_not<std::map<std::string, std::vector<int>>>(R"({"k": [true]})")),
              HasSubstr("at [\"k\"][0]"));
  EXPECT_THAT(why_not<Point>("[1]"), HasSubstr("array of 2"));
  EXPECT_THAT(why_not<Point>("{\"x\": 1}"),
              HasSubstr("in the order of the members (float64, float64)"));
  EXPECT_THAT(why_not<Point>("{\"x\": 1}"), HasSubstr("MSGPACK_DEFINE_MAP"));
  EXPECT_THAT((why_not<std::variant<int, std::string>>("[]")), HasSubstr("int32, string"));
  EXPECT_THAT((why_not<std::array<int, 2>>("[1,2,3]")), HasSubstr("array of 2"));
}

TEST(JsonValues, AcceptsWholeNumbersWithPoint) {
  const Json given = 5.0;
  const auto made = value_of(given, detail::describe<int>());
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(detail::decode<int>(stored_at(bytes_of(**made))), 5);
}

TEST(JsonValues, NamesTypesWithoutJson) {
  EXPECT_THAT(why_no_json(detail::describe<std::vector<ObjectRef<int>>>()),
              HasSubstr("no JSON form"));
  EXPECT_THAT(why_no_json(detail::describe<Tensor>()), HasSubstr("no JSON form"));
  EXPECT_EQ(why_no_json(detail::describe<Tree>()), "");
}

TEST(JsonValues, RejectsBytesOfAnotherType) {
  const auto bytes = bytes_of(detail::OutgoingValue<int>(5));
  EXPECT_FALSE(json_of(stored_at(bytes), detail::describe<double>()).ok());
  auto cut = bytes_of(detail::OutgoingValue<std::string>("four"));
  cut.pop_back();
  EXPECT_FALSE(json_of(stored_at(cut), detail::describe<std::string>()).ok());
}

TEST(JsonValues, NamesTypesReadably) {
  EXPECT_EQ(type_text(detail::describe<std::map<std::string, std::vector<float>>>()),
            "{string: [float32]}");
  EXPECT_EQ(type_text(detail::describe<std::optional<std::uint16_t>>()), "uint16 or null");
  EXPECT_EQ(type_text(detail::describe<std::tuple<bool, std::chrono::seconds>>()),
            "(bool, seconds)");
  EXPECT_THAT(type_text(detail::describe<Point>()), HasSubstr("Point[float64, float64]"));
  EXPECT_THAT(type_text(detail::describe<Tree>()), HasSubstr("Tree[int32, "));
}

}  // namespace
}  // namespace mobula::internal::runtime::console
