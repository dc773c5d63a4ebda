#include "tune/core/searchers/variant_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> all_of(VariantGenerator& generator, NumpyRandom& random) {
  std::vector<std::string> variants;
  while (true) {
    auto config = generator.next(random);
    if (!config.ok() || !config->has_value()) return variants;
    variants.push_back(to_string(**config));
  }
}

VariantGenerator made(const Space& space, const VariantSettings& settings) {
  return VariantGenerator::make(space, settings).value();
}

TEST(VariantGenerator, FirstGridPathVariesFastest) {
  auto generator = made(Space{{"b", grid_search({1, 2})}, {"a", grid_search({"x", "y"})}}, {});
  NumpyRandom random(0);
  EXPECT_EQ(generator.total(), 4);
  EXPECT_THAT(all_of(generator, random),
              ElementsAre("{b: 1, a: 'x'}", "{b: 1, a: 'y'}", "{b: 2, a: 'x'}", "{b: 2, a: 'y'}"));
}

TEST(VariantGenerator, PresetReplacesSampleAndFixesGrid) {
  // The example of Ray's documentation: six trials from four samples.
  auto generator = made(
      Space{{"a", grid_search({1, 2})}, {"b", randint(0, 3)}},
      {.num_samples = 4, .points_to_evaluate = {{{"a", 2}, {"b", 2}}, {{"a", 1}}, {{"b", 2}}}});
  NumpyRandom random(0);
  EXPECT_EQ(generator.total(), 6);
  const auto variants = all_of(generator, random);
  ASSERT_EQ(variants.size(), 6U);
  EXPECT_EQ(variants[0], "{a: 2, b: 2}");
  EXPECT_EQ(variants[2], "{a: 1, b: 2}");
  EXPECT_EQ(variants[3], "{a: 2, b: 2}");
}

TEST(VariantGenerator, ReportsPresetOutsideItsDomain) {
  auto generator = made(Space{{"a", uniform(0, 1)}}, {.points_to_evaluate = {{{"a", 7}}}});
  EXPECT_THAT(generator.warnings(), ElementsAre(HasSubstr("value 7 of parameter 'a'")));
  const auto unknown =
      VariantGenerator::make(Space{{"a", uniform(0, 1)}}, {.points_to_evaluate = {{{"z", 7}}}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().text, HasSubstr("unknown parameter 'z'"));
}

TEST(VariantGenerator, RejectsZeroSamples) {
  const auto made_empty = VariantGenerator::make(Space(), {.num_samples = 0});
  ASSERT_FALSE(made_empty.ok());
  EXPECT_EQ(made_empty.error().text, "num_samples: 0; pass at least 1");
}

TEST(VariantGenerator, RejectsTooManyVariants) {
  std::vector<Value> values(1 << 16);
  const Domain large = grid_search(values);
  const Space space{{"a", large}, {"b", large}, {"c", large}};
  EXPECT_EQ(made(space, {.num_samples = 4}).total(), std::int64_t{1} << 50);
  const auto many = VariantGenerator::make(space, {.num_samples = std::int64_t{1} << 15});
  ASSERT_FALSE(many.ok());
  EXPECT_THAT(many.error().text, HasSubstr("more than 2^62 variants"));
  const auto cells =
      VariantGenerator::make(Space{{"a", large}, {"b", large}, {"c", large}, {"d", large}}, {});
  ASSERT_FALSE(cells.ok());
  EXPECT_THAT(cells.error().text, HasSubstr("more than 2^62 grid cells"));
}

TEST(VariantGenerator, ConstantGridSearchDrawsOncePerSample) {
  const Space space{{"g", grid_search({1, 2, 3})}, {"x", uniform(0, 1)}};
  auto constant = made(space, {.num_samples = 2, .constant_grid_search = true});
  NumpyRandom random(0);
  std::set<std::string> values;
  while (true) {
    auto config = constant.next(random).value();
    if (!config) break;
    values.insert(to_string(config->get("x")));
  }
  EXPECT_EQ(values.size(), 2U);
}

TEST(VariantGenerator, SkipsCellsOfInactiveGrid) {
  auto generator = made(Space{{"o", grid_search({"sgd", "adam"})},
                              {"beta", grid_search({1, 2, 3}).when("o", "adam")}},
                        {.num_samples = 2});
  NumpyRandom random(0);
  EXPECT_EQ(generator.total(), 8);
  const auto variants = all_of(generator, random);
  EXPECT_EQ(variants.size(), 8U);
  EXPECT_EQ(std::count(variants.begin(), variants.end(), "{o: 'sgd'}"), 2);
}

TEST(VariantGenerator, CounterVariantDependsOnItsNumber) {
  const Space space{{"g", grid_search({1, 2})}, {"x", uniform(0, 1)}};
  for (const bool constant : {false, true}) {
    const auto generator = made(space, {.num_samples = 3, .constant_grid_search = constant});
    std::set<std::string> values;
    for (std::int64_t number = generator.total() - 1; number >= 0; --number) {
      const Config config = generator.variant(number, 5).value();
      EXPECT_EQ(config, generator.variant(number, 5).value());
      EXPECT_EQ(config.get("g"), Value(number % 2 + 1));
      values.insert(to_string(config.get("x")));
    }
    EXPECT_EQ(values.size(), constant ? 3U : 6U);
    EXPECT_NE(generator.variant(0, 5).value(), generator.variant(0, 6).value());
  }
}

TEST(VariantGenerator, ContinuesFromSavedState) {
  const Space space{{"g", grid_search({1, 2, 3})}, {"x", uniform(0, 1)}};
  auto whole = made(space, {.num_samples = 2});
  NumpyRandom random(9);
  const auto expected = all_of(whole, random);
  auto first = made(space, {.num_samples = 2});
  NumpyRandom again(9);
  std::vector<std::string> seen;
  for (int i = 0; i < 2; ++i) seen.push_back(to_string(*first.next(again).value()));
  auto second = made(space, {.num_samples = 2});
  ASSERT_TRUE(load_state(second, save_state(first), "variants").ok());
  for (const auto& variant : all_of(second, again)) seen.push_back(variant);
  EXPECT_EQ(seen, expected);
}

TEST(StateArchive, RejectsMalformedBytes) {
  auto generator = made(Space{{"x", uniform(0, 1)}}, {});
  const std::string state = save_state(generator);
  for (std::size_t size = 0; size < state.size(); ++size)
    EXPECT_FALSE(load_state(generator, state.substr(0, size), "variants").ok());
  EXPECT_FALSE(load_state(generator, state + "x", "variants").ok());
  std::string huge = state;
  huge.replace(16, 8, 8, '\xff');  // count of pending variants
  EXPECT_FALSE(load_state(generator, huge, "variants").ok());
}

}  // namespace
}  // namespace mobula::internal::tune
