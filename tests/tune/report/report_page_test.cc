#include "tune/report/report_page.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "sample_experiment.h"
#include "tune/report/parameter_importance.h"

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t most_bytes = 150'000;

std::string page_of(const ExperimentLocation& location) {
  auto reader = ExperimentReader::open(location).value();
  return report_page(report_model_of(reader, "finished").value());
}

void expect_self_contained(const std::string& page) {
  for (const char* external : {"http:", "https:", "src=", "href=", "url(", "@import", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(external)));
  }
}

TEST(ReportPage, HasEveryPlot) {
  const SampleExperiment sample({.trials = 200});
  const std::string page = page_of(sample.location);
  for (const char* title :
       {"Optimization history", "Best trials", "Parallel coordinates", "Parameter importance",
        "Early stopping", "Intermediate values", "Slices", "Timeline by node"}) {
    EXPECT_THAT(page, HasSubstr("<h2>" + std::string(title) + "</h2>"));
  }
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_LT(page.size(), most_bytes);
  expect_self_contained(page);
  if (const char* file = std::getenv("MOBULA_WRITE_REPORT")) std::ofstream(file) << page;
}

TEST(ReportPage, StaysSmallWithManyTrialsAndParameters) {
  const SampleExperiment sample({.trials = 1500, .reports = 4, .extra_parameters = 20});
  EXPECT_LT(page_of(sample.location).size(), most_bytes);
}

TEST(ReportPage, EmptyExperiment_HasNoPlots) {
  const SampleExperiment sample({.trials = 0});
  const std::string page = page_of(sample.location);
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
  EXPECT_THAT(page, HasSubstr("<h1>sample</h1>"));
}

TEST(ReportPage, OneTrial_HasHistory) {
  const SampleExperiment sample({.trials = 1});
  EXPECT_THAT(page_of(sample.location), HasSubstr("Optimization history"));
}

TEST(ReportPage, EscapesForeignText) {
  const SampleExperiment sample({.trials = 30}, "a<script>alert(1)<");
  const std::string page = page_of(sample.location);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("a&lt;script&gt;alert(1)&lt;"));
}

TEST(ParameterImportance, RanksParameterThatDecides) {
  std::vector<ReportTrial> trials;
  NumpyRandom random(3);
  for (int i = 0; i < 200; ++i) {
    const double decisive = random.unit();
    trials.push_back({.trial = i,
                      .value = decisive,
                      .config = {{"noise", random.unit()}, {"decisive", decisive}}});
  }
  std::sort(trials.begin(), trials.end(),
            [](const auto& a, const auto& b) { return a.value < b.value; });
  const auto shares = importances_of(trials, {"noise", "decisive"});
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].parameter, "decisive");
  EXPECT_GT(shares[0].share, 0.8);
  EXPECT_NEAR(shares[0].share + shares[1].share, 1, 1e-12);
}

TEST(ParameterImportance, NeedsTwentyTrials) {
  EXPECT_TRUE(importances_of(std::vector<ReportTrial>(19), {"x"}).empty());
}

}  // namespace
}  // namespace mobula::internal::tune
