// Compares the streaming JSON writer with the output of the library for equal members.
#include "head/core/view/json_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/id.h"

namespace mobula::internal::head {
namespace {

using OrderedJson = nlohmann::ordered_json;

TEST(JsonTextTest, MatchesLibraryOutput) {
  JsonText text;
  text.open_object().member("name", "f").member("yes", true).member("no", false);
  text.member("least", std::numeric_limits<std::int64_t>::min())
      .member("most", std::numeric_limits<std::uint64_t>::max());
  text.member("id", TaskId::of(7)).member("none", TaskId());
  text.key("nothing").null();
  text.key("empty").open_array().close_array();
  text.key("list")
      .open_array()
      .value(1)
      .value("two")
      .open_object()
      .member("a", 1)
      .member("b", "c")
      .close_object();
  text.open_object().close_object().open_array().value(3).close_array().close_array();
  text.member("last", 4).close_object();
  const OrderedJson json = {
      {"name", "f"},
      {"yes", true},
      {"no", false},
      {"least", std::numeric_limits<std::int64_t>::min()},
      {"most", std::numeric_limits<std::uint64_t>::max()},
      {"id", TaskId::of(7).hex()},
      {"none", nullptr},
      {"nothing", nullptr},
      {"empty", OrderedJson::array()},
      {"list",
       OrderedJson::array(
           {1, "two", {{"a", 1}, {"b", "c"}}, OrderedJson::object(), OrderedJson::array({3})})},
      {"last", 4}};
  EXPECT_EQ(text.take(), json.dump());
}

TEST(JsonTextTest, EscapesAndReplacesTextAsLibrary) {
  for (const std::string given :
       {"", "plain", "\"quoted\"", "back\\slash", "two\nlines\t", "\x01\x1f\x7f",
        "gr\xc3\xbc\xc3\x9f", "broken \xff\xc3", "\xf0\x9f\x90\x9f"}) {
    JsonText text;
    text.open_array().value(given).close_array();
    EXPECT_EQ(text.take(), OrderedJson::array({given}).dump(-1, ' ', false,
                                                            OrderedJson::error_handler_t::replace))
        << given;
  }
}

}  // namespace
}  // namespace mobula::internal::head
