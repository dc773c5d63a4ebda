#include "tune/core/searchers/sobol/sobol_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

TEST(SobolSequence, EqualsRecordedPoints) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/sobol.txt");
  std::string line;
  int compared = 0;
  while (std::getline(trace, line)) {
    const TraceWords words = words_of(line);
    const SobolSequence sequence(std::stoul(words.at(0)));
    const auto point = sequence.point(static_cast<std::uint32_t>(std::stoul(words.at(1))));
    ASSERT_EQ(point.size() + 2, words.size());
    for (std::size_t i = 0; i < point.size(); ++i)
      ASSERT_EQ(point[i] * (1U << SobolSequence::bits), std::stod(words[i + 2]))
          << line.substr(0, 9);
    ++compared;
  }
  EXPECT_EQ(compared, 85);
}

TEST(SobolSequence, ScrambledPointsEqualRecordedPoints) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/sobol_scrambled.txt");
  std::optional<SobolSequence> sequence;
  int compared = 0;
  for (std::string line; std::getline(trace, line);) {
    const TraceWords words = words_of(line);
    const auto number = [&](std::size_t at) {
      return static_cast<std::uint32_t>(std::stoul(words.at(at)));
    };
    if (words.at(0) == "matrices") {
      const std::size_t dimensions = number(1);
      std::size_t next = 2;
      std::vector<SobolSequence::MatrixRows> matrices(dimensions);
      for (auto& rows : matrices)
        for (auto& row : rows) row = number(next++);
      std::vector<std::uint32_t> shifts;
      while (next < words.size()) shifts.push_back(number(next++));
      ASSERT_EQ(shifts.size(), dimensions);
      sequence.emplace(dimensions).scramble(matrices, shifts);
      continue;
    }
    const auto point = sequence->point(number(0));
    ASSERT_EQ(point.size() + 1, words.size());
    for (std::size_t i = 0; i < point.size(); ++i)
      ASSERT_EQ(point[i] * (1U << SobolSequence::bits), number(i + 1)) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 21);
}

std::unique_ptr<SobolSearch> sobol(const Space& space) {
  return SobolSearch::make(SearchSpace::make(space).value()).value();
}

TEST(SobolSearch, CoversEveryDomainEvenly) {
  auto search = sobol(Space{{"x", uniform(0, 1)},
                            {"c", choice({"a", "b", "c", "d"})},
                            {"n", randint(0, 8)},
                            {"beta", uniform(0, 1).when("c", "a")},
                            {"one", randint(5, 6)}});
  NumpyRandom random(1);
  std::map<std::string, int> counts;
  std::map<std::int64_t, int> numbers;
  for (TrialNumber trial = 0; trial < 65; ++trial) {
    const Config config = search->ask(trial, {random, random}).value().config;
    EXPECT_EQ(config.get("one"), Value(5));
    EXPECT_EQ(config.has("beta"), config.get("c").text() == "a");
    if (trial == 0) continue;  // random
    ++counts[config.get("c").text()];
    ++numbers[config.get("n").integer()];
  }
  for (const auto& [name, count] : counts) EXPECT_EQ(count, 16) << name;
  for (const auto& [number, count] : numbers) EXPECT_EQ(count, 8) << number;
  EXPECT_EQ(numbers.size(), 8U);
}

TEST(SobolSearch, ContinuesFromSavedState) {
  auto search = sobol(Space{{"x", uniform(0, 1)}});
  NumpyRandom random(1);
  for (TrialNumber trial = 0; trial < 7; ++trial)
    ASSERT_TRUE(search->ask(trial, {random, random}).ok());
  auto copy = sobol(Space{{"x", uniform(0, 1)}});
  ASSERT_TRUE(copy->load(search->save()).ok());
  EXPECT_EQ(search->ask(7, {random, random}).value().config,
            copy->ask(7, {random, random}).value().config);
}

TEST(SobolSequence, ScrambledPointsKeepTheirStrata) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    NumpyRandom random(seed);
    SobolSequence sequence(20);
    sequence.scramble(random);
    constexpr std::size_t count = 64;
    std::vector<std::set<int>> cells(20);
    std::set<std::pair<int, int>> squares;  // a net: 8 by 8 for the first two dimensions
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto point = sequence.point(i);
      for (std::size_t d = 0; d < 20; ++d) cells[d].insert(static_cast<int>(point[d] * count));
      squares.emplace(static_cast<int>(point[0] * 8), static_cast<int>(point[1] * 8));
    }
    for (const auto& each : cells) EXPECT_EQ(each.size(), count);
    EXPECT_EQ(squares.size(), count);
  }
}

TEST(SobolSearch, ScramblesBySeedAndResumes) {
  const auto space = SearchSpace::make(Space{{"x", uniform(0, 1)}, {"y", uniform(0, 1)}}).value();
  const auto configs = [&](std::uint32_t seed, bool resumes) {
    auto search = SobolSearch::make(space, {.scramble = true}).value();
    NumpyRandom random(seed);
    std::vector<double> values;
    for (TrialNumber trial = 0; trial < 6; ++trial) {
      if (resumes && trial == 3) {
        const std::string state = search->save();
        search = SobolSearch::make(space, {.scramble = true}).value();
        EXPECT_TRUE(search->load(state).ok());
      }
      values.push_back(search->ask(trial, {random, random}).value().config.get("y").number());
    }
    return values;
  };
  EXPECT_EQ(configs(1, true), configs(1, false));
  EXPECT_NE(configs(1, false)[5], configs(2, false)[5]);
}

TEST(SobolSearch, RejectsSpaceWithoutChoice) {
  const auto space = SearchSpace::make(Space{{"x", constant(1)}}).value();
  EXPECT_THAT(SobolSearch::make(space).error().text, HasSubstr("no parameter of the space"));
}

}  // namespace
}  // namespace mobula::internal::tune
