// Packing quality of the scheduler in small cases, compared with Ray's rule and with the optimum.
#include <gtest/gtest.h>

#include "bench/scheduler/packing.h"

namespace mobula::internal::packing {
namespace {

constexpr int small_cases = 2000;

TEST(PackingQuality, Requests_PackNoWorseThanRay) {
  const auto quality = measure_requests(small_cases);
  std::printf("%s", describe(quality, "requests").c_str());
  EXPECT_EQ(quality.worse_than_ray, 0) << "first seed: " << quality.worse.front();
  EXPECT_GE(quality.best, 1500);
  EXPECT_LT(quality.best, small_cases) << "no case in which an order of arrival is unlucky?";
  EXPECT_LE(quality.used, quality.most);
}

TEST(PackingQuality, Groups_AreAlwaysPlacedIfPossible) {
  const auto quality = measure_groups(small_cases);
  std::printf("%s", describe(quality, "groups").c_str());
  EXPECT_EQ(quality.worse_than_ray, 0) << "first seed: " << quality.worse.front();
  EXPECT_GE(quality.best, 1999);
  EXPECT_LE(quality.used, quality.most);
}

// Checks the two references by hand.
TEST(PackingQuality, OptimumAndRayRule_MatchHandResults) {
  const Case unlucky{{{40, {10, 10}}}, {{0, 6}, {0, 5}, {0, 5}, {0, 4}}, GroupStrategy::pack};
  EXPECT_EQ(most_in_use(unlucky), 20);
  EXPECT_EQ(in_use_by_ray(unlucky), 20);
  const Case first_large{{{40, {10}}}, {{0, 6}, {0, 5}, {0, 5}}, GroupStrategy::pack};
  EXPECT_EQ(most_in_use(first_large), 10);
  EXPECT_EQ(in_use_by_ray(first_large), 6);
  const Case split{{{40, {5, 5}}}, {{0, 10}}, GroupStrategy::strict_pack};
  EXPECT_FALSE(can_be_placed(split)) << "a device is not put together from halves";
  EXPECT_FALSE(placed_by_ray(split));
  Case apart{{{40, {10}}, {40, {10}}}, {{10, 0}, {10, 0}, {10, 0}}, GroupStrategy::strict_spread};
  EXPECT_FALSE(can_be_placed(apart));
  apart.strategy = GroupStrategy::spread;
  EXPECT_TRUE(can_be_placed(apart));
  EXPECT_TRUE(placed_by_ray(apart));
}

}  // namespace
}  // namespace mobula::internal::packing
