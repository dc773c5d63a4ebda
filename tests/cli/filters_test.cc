#include "cli/filters.h"

#include <gtest/gtest.h>

namespace mobula::internal::cli {
namespace {

using Json = DocumentJson;

TEST(ListFilters, AcceptsColumnNames) {
  const auto named = named_as_fields(
      "actors", {{"CLASS", "Counter"}, {"class", "Counter"}, {"class_name", "Counter"}});
  for (const auto& [name, value] : named) {
    EXPECT_EQ(name, "class_name");
    EXPECT_EQ(value, "Counter");
  }
  EXPECT_EQ(named_as_fields("nodes", {{"labels.zone", "a"}}).front().first, "labels.zone");
}

TEST(ListFilters, ComparesStatesIgnoringCase) {
  for (const char* name : {"state", "STATE"}) {
    const auto named = named_as_fields("nodes", {{name, "alive"}});
    EXPECT_EQ(named.front(), (std::pair<std::string, std::string>("state", "ALIVE")));
  }
}

TEST(ListFilters, RejectsUnknownNamesAndListsKnownNames) {
  const Json none = Json::array();
  const auto refused = check_filters("actors", {{"nofield", "1"}}, none);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().text.find("class_name"), std::string::npos) << refused.error().text;
  EXPECT_TRUE(check_filters("actors", {{"class_name", "x"}, {"slot_id", "y"}}, none).ok());
  EXPECT_TRUE(check_filters("nodes", {{"labels.zone", "a"}}, none).ok());
  // Fields of an item that the table does not show.
  EXPECT_TRUE(check_filters("leases", {{"more", "a"}}, Json::array({{{"more", 1}}})).ok());
}

}  // namespace
}  // namespace mobula::internal::cli
