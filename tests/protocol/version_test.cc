#include "protocol/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

using ::testing::HasSubstr;

TEST(ProtocolVersion, UsesNewestCommonVersion) {
  EXPECT_EQ(agreed_version({2, 3}, {2, 3}), 3u);
  EXPECT_EQ(agreed_version({2, 3}, {2, 2}), 2u);
  EXPECT_EQ(agreed_version({2, 3}, {3, 7}), 3u);
  EXPECT_EQ(agreed_version({2, 9}, {3, 7}), 7u);
  EXPECT_EQ(agreed_version({2, 3}, {4, 5}), std::nullopt);
  EXPECT_EQ(agreed_version({2, 3}, {0, 1}), std::nullopt);
}

TEST(ProtocolVersion, OldestUnset_AcceptsOneVersionOnly) {
  EXPECT_EQ(range_of(2, 0), (ProtocolRange{2, 2}));
  EXPECT_EQ(range_of(5, 3), (ProtocolRange{3, 5}));
  EXPECT_EQ(range_of(3, 5), (ProtocolRange{3, 3})) << "an inverted range means one version";
  EXPECT_TRUE(speaks_with(protocol_version, 0));
  EXPECT_TRUE(speaks_with(oldest_protocol_version, 0));
  EXPECT_TRUE(speaks_with(protocol_version + 5, protocol_version));
  EXPECT_FALSE(speaks_with(oldest_protocol_version - 1, 0));
  EXPECT_FALSE(speaks_with(protocol_version + 1, 0));
}

TEST(ProtocolVersion, Mismatch_NamesBothAndSideToUpgrade) {
  EXPECT_EQ(protocol_mismatch("the agent", {9, 11}, "the head"),
            "ProtocolMismatchError: the agent speaks protocol versions 9 to 11, the head protocol "
            "versions 2 to 5; install a newer "
            "release of Mobula for the head (`mobula up CLUSTER.yaml` brings all machines to one)");
  EXPECT_THAT(protocol_mismatch("the driver", {1, 1}, "the agent"),
              HasSubstr("speaks protocol version 1, the agent"));
  EXPECT_THAT(protocol_mismatch("the driver", {1, 1}, "the agent"),
              HasSubstr("a newer release of Mobula for the driver"));
}

}  // namespace
}  // namespace mobula::internal
