// The values were printed by NumPy 2.4.6 and CPython 3.11.
#include "tune/core/random/random_streams.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tune/core/numpy_arithmetic.h"

namespace mobula::internal::tune {
namespace {

TEST(NumpyRandom, DrawsTheValuesOfRandomState) {
  NumpyRandom random(42);
  EXPECT_EQ(random.unit(), 0.3745401188473625);
  EXPECT_EQ(random.unit(), 0.9507143064099162);
  for (const std::int64_t expected : {7, 4, 6, 9, 2}) EXPECT_EQ(random.integer(0, 10), expected);
  EXPECT_EQ(random.integer(0, std::int64_t{1} << 40), 919372468554);
  EXPECT_EQ(random.integer(0, std::int64_t{1} << 40), 871303592023);
  for (const double expected : {-0.7704606913831886, 0.17562303905569931, 0.03476240710399059})
    EXPECT_DOUBLE_EQ(random.normal(1, 2), expected);
  const std::array<double, 4> weights{.1, .2, .3, .4};
  for (const std::size_t expected : {3U, 3U, 0U, 3U, 3U, 3U})
    EXPECT_EQ(random.weighted(weights), expected);
  EXPECT_EQ(random.integer(0, 1), 0);  // draws nothing
  EXPECT_EQ(random.unit(), 0.007066305219717406);
}

void expect_python(std::uint64_t seed, std::array<double, 2> units,
                   std::array<std::size_t, 6> fives, std::array<std::size_t, 4> pairs,
                   double last) {
  PythonRandom random(seed);
  for (const double expected : units) EXPECT_EQ(random.unit(), expected);
  for (const std::size_t expected : fives) EXPECT_EQ(random.index(5), expected);
  for (const std::size_t expected : pairs) EXPECT_EQ(random.index(2), expected);
  EXPECT_EQ(random.index(1), 0U);
  EXPECT_EQ(random.unit(), last);
}

TEST(PythonRandom, DrawsTheValuesOfPython) {
  expect_python(0, {0.8444218515250481, 0.7579544029403025}, {3, 0, 2, 4, 3, 3}, {1, 1, 1, 0},
                0.28183784439970383);
  expect_python(42, {0.6394267984578837, 0.025010755222666936}, {2, 1, 1, 1, 0, 4}, {0, 1, 0, 0},
                0.21863797480360336);
  expect_python(1099511627783, {0.6137037779936511, 0.8149162973309487}, {4, 3, 2, 4, 1, 4},
                {1, 1, 1, 1}, 0.8634128339364823);
}

TEST(CounterStream, DiffersByTrialAndPurpose) {
  auto first = [](std::uint64_t seed, std::int64_t trial, StreamPurpose purpose) {
    return counter_stream(seed, trial, purpose).next();
  };
  const std::uint32_t base = first(1, 2, StreamPurpose::variant);
  EXPECT_EQ(base, first(1, 2, StreamPurpose::variant));
  EXPECT_NE(base, first(2, 2, StreamPurpose::variant));
  EXPECT_NE(base, first(1, 3, StreamPurpose::variant));
  EXPECT_NE(base, first(1, 2, StreamPurpose::exploit));
}

TEST(NumpyArithmetic, EqualsNumpy) {
  std::vector<double> sines(300);
  for (std::size_t i = 0; i < sines.size(); ++i) sines[i] = std::sin(static_cast<double>(i));
  EXPECT_EQ(pairwise_sum(sines), 1.4353455759472922);
  EXPECT_EQ(pairwise_sum(std::span(sines).first(100)), 0.37919462744933863);
  EXPECT_EQ(mean(std::span(sines).first(7)), -0.014750549782363882);
  EXPECT_EQ(population_deviation(std::span(sines).first(20)), 0.6878696811453249);
  EXPECT_EQ(median(sines), 0.008850962552706789);
}

TEST(NumpyArithmetic, RoundsHalfToEven) {
  EXPECT_EQ(round_half_even(0.5), 0);
  EXPECT_EQ(round_half_even(1.5), 2);
  EXPECT_EQ(round_half_even(-2.5), -2);
  EXPECT_EQ(round_half_even(2.500001), 3);
}

}  // namespace
}  // namespace mobula::internal::tune
