#include "base/model/labels/label_selector.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

bool matches(const std::string& expression, const Labels& labels) {
  return LabelMatch::parse("zone", expression).value().matches(labels);
}

TEST(LabelSelector, MatchesEqualValue) {
  EXPECT_TRUE(matches("a", {{"zone", "a"}}));
  EXPECT_FALSE(matches("a", {{"zone", "b"}}));
  EXPECT_FALSE(matches("a", {}));
}

TEST(LabelSelector, NegatedValue_MatchesUnlabeledNodes) {
  EXPECT_FALSE(matches("!a", {{"zone", "a"}}));
  EXPECT_TRUE(matches("!a", {{"zone", "b"}}));
  EXPECT_TRUE(matches("!a", {}));
}

TEST(LabelSelector, List_MatchesAnyOfItsValues) {
  EXPECT_TRUE(matches("in(a,b)", {{"zone", "b"}}));
  EXPECT_TRUE(matches("in(a, b)", {{"zone", "b"}}));
  EXPECT_FALSE(matches("in(a,b)", {{"zone", "c"}}));
  EXPECT_FALSE(matches("in(a,b)", {}));
}

TEST(LabelSelector, NegatedList_MatchesNoneOfItsValues) {
  EXPECT_FALSE(matches("!in(a,b)", {{"zone", "a"}}));
  EXPECT_TRUE(matches("!in(a,b)", {{"zone", "c"}}));
  EXPECT_TRUE(matches("!in(a,b)", {}));
}

TEST(LabelSelector, ValueStartingLikeList_IsValue) {
  EXPECT_TRUE(matches("inner", {{"zone", "inner"}}));
}

TEST(LabelSelector, MeetsConditionsOfOneLabelIfValueRemains) {
  const auto can = [](const std::vector<std::string>& expressions) {
    std::vector<LabelMatch> conditions;
    for (const auto& each : expressions)
      conditions.push_back(LabelMatch::parse("zone", each).value());
    return can_all_be_met(conditions);
  };
  EXPECT_TRUE(can({}));
  EXPECT_TRUE(can({"a", "a"}));
  EXPECT_FALSE(can({"a", "b"}));
  EXPECT_TRUE(can({"in(a,b)", "in(b,c)"}));
  EXPECT_FALSE(can({"in(a,b)", "in(b,c)", "!b"}));
  EXPECT_TRUE(can({"!a", "!in(b,c)"})) << "a node without the label, too";
  EXPECT_FALSE(can({"!a", "a"}));
  EXPECT_TRUE(can({"!a", "in(a,b)"}));
}

TEST(LabelSelector, RejectsBadExpressionsWithRule) {
  for (const auto* bad : {"!", "in(a", "in()", "in(a,)", "a b", "-a", "in(a,b)c"}) {
    const auto parsed = LabelMatch::parse("zone", bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_FALSE(LabelMatch::parse("a b", "v").ok());
  EXPECT_FALSE(LabelMatch::parse("/name", "v").ok());
  EXPECT_FALSE(LabelMatch::parse("zone", std::string(64, 'a')).ok());
}

TEST(LabelSelector, AcceptsKeyPrefixes) {
  EXPECT_TRUE(LabelMatch::parse("mobula.io/node-id", "n1").ok());
  EXPECT_TRUE(check_labels({{"mobula.io/zone", "eu-1"}, {"plain", ""}}).ok());
  EXPECT_FALSE(check_labels({{"zone", "in(a)"}}).ok());
}

}  // namespace
}  // namespace mobula::internal
