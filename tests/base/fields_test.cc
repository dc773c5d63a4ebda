#include "base/fields.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace mobula::internal {
namespace {

struct Empty {
  MOBULA_FIELDS();
};

struct Inner {
  int first = 1;
  std::string second = "two";
  MOBULA_FIELDS(first, second);
};

// One member of each kind that messages have.
struct Outer {
  Inner inner;
  std::optional<Inner> maybe;
  std::optional<std::uint64_t> number;
  std::variant<Inner, std::string, std::optional<Inner>> choice;
  std::vector<Inner> list;
  std::map<std::string, Inner> table;
  std::pair<int, Inner> pair;
  bool flag = false;
  MOBULA_FIELDS(inner, maybe, number, choice, list, table, pair, flag);
};

TEST(Fields, CountsMembers) {
  EXPECT_EQ(field_count<Empty>, 0u);
  EXPECT_EQ(field_count<Inner>, 2u);
  EXPECT_EQ(field_count<Outer>, 8u);
  static_assert(check_fields<Empty>() && check_fields<Inner>() && check_fields<Outer>());
}

TEST(Fields, NamesMembersInTheirOrder) {
  const Outer outer;
  const Empty empty;
  std::vector<std::string> names;
  for_each_field(outer, [&](std::string_view name, const auto&) { names.emplace_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"inner", "maybe", "number", "choice", "list", "table",
                                             "pair", "flag"}));
  for_each_field(empty, [](std::string_view, const auto&) { FAIL(); });
}

TEST(Fields, VisitsMembersByReference) {
  Inner inner;
  visit_fields(inner, [](int& first, std::string& second) {
    first = 7;
    second = "seven";
  });
  EXPECT_EQ(inner.first, 7);
  EXPECT_EQ(inner.second, "seven");
}

TEST(Fields, PairsMembersOfTwoObjects) {
  std::string differing;
  for_each_field_pair(Inner{}, Inner{1, "three"},
                      [&](std::string_view name, const auto& left, const auto& right) {
                        if (!(left == right)) differing += name;
                      });
  EXPECT_EQ(differing, "second");
}

}  // namespace
}  // namespace mobula::internal
