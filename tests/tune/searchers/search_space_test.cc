#include "tune/core/space/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

std::string fault_of(const Space& space) {
  const Result<void> checked = space.check_not_empty();
  return checked ? "" : checked.error().text;
}
std::string fault_of(const Domain& domain) { return fault_of(Space{{"lr", domain}}); }

TEST(Space, AcceptsEveryKindOfDomain) {
  EXPECT_EQ(fault_of(Space{{"a", uniform(-5, 5)},
                           {"b", quniform(0, 1, 0.25)},
                           {"c", loguniform(1e-5, 1e-1)},
                           {"d", qloguniform(1, 100, 5)},
                           {"e", randn()},
                           {"f", qrandn(0, 1, 0.5)},
                           {"g", randint(0, 10)},
                           {"h", qrandint(0, 10, 5)},
                           {"i", lograndint(1, 10)},
                           {"j", qlograndint(5, 50, 5)},
                           {"k", choice({"x", 1, true})},
                           {"l", ordered({1, 2})},
                           {"m/n", grid_search({1, 2})},
                           {"m/o", constant(3)},
                           {"p", sample_from([](const Config&) { return Value(1); })}}),
            "");
}

TEST(Space, RejectsDuplicateParameter) {
  EXPECT_EQ(fault_of(Space{{"lr", uniform(0, 1)}, {"lr", uniform(0, 2)}}),
            "parameter 'lr': duplicate parameter; remove or rename one");
}

TEST(Space, RejectsEmptySpace) {
  EXPECT_THAT(fault_of(Space()), HasSubstr("no parameters"));
  EXPECT_TRUE(Space().check().ok());
}

TEST(Space, RejectsNamesThatClash) {
  EXPECT_THAT(fault_of(Space{{"", uniform(0, 1)}}), HasSubstr("empty name"));
  EXPECT_THAT(fault_of(Space{{"a//b", uniform(0, 1)}}), HasSubstr("empty name"));
  EXPECT_THAT(fault_of(Space{{"a", uniform(0, 1)}, {"a/b", uniform(0, 1)}}),
              HasSubstr("parameter 'a': also a group of parameter 'a/b'"));
}

TEST(Space, RejectsBoundsWithoutValues) {
  EXPECT_THAT(fault_of(uniform(2, 1)), HasSubstr("parameter 'lr': uniform: low 2 exceeds high 1"));
  EXPECT_THAT(fault_of(uniform(0, std::numeric_limits<double>::infinity())),
              HasSubstr("finite bounds"));
  EXPECT_THAT(fault_of(loguniform(0, 1)), HasSubstr("loguniform: low is 0"));
  EXPECT_THAT(fault_of(quniform(0.1, 0.2, 1)), HasSubstr("no multiple of q 1"));
  EXPECT_THAT(fault_of(quniform(0, 1, 0)), HasSubstr("quniform: q is -1"));
  EXPECT_THAT(fault_of(randn(0, 0)), HasSubstr("randn: deviation is 0"));
  EXPECT_THAT(fault_of(randint(3, 3)), HasSubstr("randint: no value between 3 and 3"));
  EXPECT_THAT(fault_of(qrandint(3, 3, 1)), HasSubstr("qrandint: no value"));
  EXPECT_EQ(fault_of(qrandint(6, 6, 3)), "");
  EXPECT_THAT(fault_of(lograndint(0, 3)), HasSubstr("lograndint: low is 0"));
  EXPECT_THAT(fault_of(choice({})), HasSubstr("choice: no values"));
  EXPECT_THAT(fault_of(sample_from({})), HasSubstr("no function"));
}

TEST(Space, RejectsFaultyConditions) {
  EXPECT_THAT(fault_of(Space{{"b", uniform(0, 1).when("a", 1)}}), HasSubstr("unknown parent 'a'"));
  EXPECT_THAT(fault_of(Space{{"a", choice({1}).when("b", 1)}, {"b", choice({1}).when("a", 1)}}),
              HasSubstr("circular"));
  EXPECT_THAT(fault_of(Space{{"a", choice({1, 2})}, {"b", grid_search({1, 2}).when("a", 1)}}),
              HasSubstr("parameter 'b': grid_search depends"));
}

TEST(Domain, QuantizedDrawsStayWithinBounds) {
  NumpyRandom random(1);
  const Domain steps = quniform(0.05, 0.95, 0.1);  // 0.1 to 0.9
  const Domain integers = qrandint(0, 10, 5);      // 0, 5, 10
  const Domain unit = qrandint(0, 3, 1);           // 0, 1, 2
  std::set<std::int64_t> seen;
  for (int i = 0; i < 200; ++i) {
    const double drawn = steps.sample(random).number();
    EXPECT_GE(drawn, 0.099);
    EXPECT_LE(drawn, 0.901);
    seen.insert(integers.sample(random).integer());
    EXPECT_LT(unit.sample(random).integer(), 3);
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 5, 10}));
}

TEST(Domain, ClampsToItsBounds) {
  EXPECT_EQ(uniform(0, 1).clamp(1.5), Value(1.0));
  EXPECT_EQ(randint(0, 10).clamp(12), Value(9));
  EXPECT_EQ(qrandint(0, 10, 5).clamp(12), Value(10));
  EXPECT_EQ(choice({1, 2}).clamp(12), Value(12));
}

TEST(Resolution, FunctionsWaitForTheirParameters) {
  const Space space{
      {"c", sample_from([](const Config& config) { return Value(config.get("b").integer() + 1); })},
      {"b", sample_from([](const Config& config) { return Value(config.get("a").integer() + 1); })},
      {"a", constant(1)}};
  Resolution resolution(space);
  NumpyRandom random(0);
  ASSERT_TRUE(resolution.draw(random, false).ok());
  EXPECT_EQ(resolution.config(), (Config{{"c", 3}, {"b", 2}, {"a", 1}}));
}

std::string draw_fault(const Space& space) {
  Resolution resolution(space);
  NumpyRandom random(0);
  const Result<void> drawn = resolution.draw(random, false);
  return drawn ? "" : drawn.error().text;
}

TEST(Resolution, NamesParametersOfFailedFunctions) {
  auto reads = [](const char* name) {
    return sample_from([name](const Config& config) { return config.get(name); });
  };
  EXPECT_THAT(draw_fault(Space{{"a", reads("b")}, {"b", reads("a")}}),
              HasSubstr("waits for parameter"));
  EXPECT_THAT(draw_fault(Space{{"a", reads("z")}}),
              HasSubstr("parameter 'a': sample_from reads unknown parameter 'z'"));
  EXPECT_THAT(
      draw_fault(Space{
          {"o", constant("sgd")}, {"beta", uniform(0, 1).when("o", "adam")}, {"a", reads("beta")}}),
      HasSubstr("inactive parameter 'beta'"));
  EXPECT_THAT(draw_fault(Space{{"a", sample_from([](const Config&) -> Value {
                                  throw std::runtime_error("no data");
                                })}}),
              HasSubstr("parameter 'a': sample_from threw 'no data'"));
}

TEST(Resolution, InactiveParameterIsAbsent) {
  const Space space{{"gamma", uniform(0, 1).when("beta", 0.5)},
                    {"beta", constant(0.5).when("opt", "adam")},
                    {"opt", choice({"sgd", "adam"})}};
  NumpyRandom random(3);
  int active = 0;
  for (int i = 0; i < 50; ++i) {
    Resolution resolution(space);
    ASSERT_TRUE(resolution.draw(random, false).ok());
    const Config config = resolution.config();
    const bool adam = config.get("opt").text() == "adam";
    EXPECT_EQ(config.has("beta"), adam);
    EXPECT_EQ(config.has("gamma"), adam);
    active += adam ? 1 : 0;
  }
  EXPECT_GT(active, 5);
  EXPECT_LT(active, 45);
}

}  // namespace
}  // namespace mobula::internal::tune
