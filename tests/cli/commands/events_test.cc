// Time formats that `mobula events` accepts.
#include <gtest/gtest.h>

#include "cli/commands/logs/event_commands.h"

namespace mobula::internal::cli {
namespace {

TEST(EventTimes, ParsesSpansBackwardsAndUtcTimes) {
  constexpr std::int64_t now = 1'000'000'000'000;
  EXPECT_EQ(*moment_of("90", now), now - 90'000);
  EXPECT_EQ(*moment_of("90s", now), now - 90'000);
  EXPECT_EQ(*moment_of("1.5m", now), now - 90'000);
  EXPECT_EQ(*moment_of("2h", now), now - 7'200'000);
  EXPECT_EQ(*moment_of("1d", now), now - 86'400'000);
  EXPECT_EQ(*moment_of("2001-09-09T01:46:40Z", now), now);
  EXPECT_EQ(*moment_of("2001-09-09T01:46:40.250Z", now), now + 250);
}

TEST(EventTimes, RejectsInvalidTimes) {
  for (const char* text : {"", "s", "-5s", "5 minutes", "5y", "nan", "0x10", "1e9",
                           "2001-09-09T01:46:40+02:00", "2001-09-09"}) {
    EXPECT_FALSE(moment_of(text, 0).ok()) << text;
  }
}

}  // namespace
}  // namespace mobula::internal::cli
