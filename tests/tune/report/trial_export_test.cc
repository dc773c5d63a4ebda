#include "tune/report/trial_export.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sample_experiment.h"

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines_of(Result<void> (*write)(ExperimentReader&, const ExportSink&),
                                  const ExperimentLocation& location) {
  auto reader = ExperimentReader::open(location).value();
  std::string text;
  EXPECT_TRUE(write(reader, [&](std::string_view part) {
                text += part;
                return true;
              }).ok());
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TrialExport, CsvHasOneRowPerReport) {
  const SampleExperiment sample({.trials = 10, .reports = 16});
  const auto lines = lines_of(export_csv, sample.location);
  auto reader = ExperimentReader::open(sample.location).value();
  EXPECT_EQ(static_cast<std::int64_t>(lines.size()), reader.report_count().value() + 1);
  EXPECT_EQ(lines[0],
            "trial,state,attempt,iteration,time_ms,config/lr,config/momentum,config/layers,"
            "config/opt,accuracy,loss");
  EXPECT_TRUE(lines[1].starts_with("0,terminated,1,1,"));
  const auto last = lines[1].substr(lines[1].rfind(',') + 1);
  EXPECT_EQ(std::stod(last), reader.reports(0).value()[0].metrics[1].second.number());
}

TEST(TrialExport, CsvQuotesText) {
  const SampleExperiment sample({.trials = 0});
  {
    auto store = ExperimentStore::resume(sample.location, {}).value();
    store->write({1, {StoredTrial{.trial = 0, .config = {{"a,b", "say \"x\"\n"}}}}});
  }
  const auto lines = lines_of(export_csv, sample.location);
  EXPECT_EQ(lines[0], "trial,state,attempt,iteration,time_ms,\"config/a,b\"");
  EXPECT_EQ(lines[1], "0,pending,,,,\"say \"\"x\"\"");
}

TEST(TrialExport, JsonLinesParse) {
  const SampleExperiment sample({.trials = 30});
  const auto lines = lines_of(export_json_lines, sample.location);
  ASSERT_EQ(lines.size(), 30u);
  for (const auto& line : lines) {
    const auto trial = nlohmann::json::parse(line);
    EXPECT_TRUE(trial["config"]["lr"].is_number_float());
    EXPECT_TRUE(trial["reports"][0]["metrics"]["loss"].is_number());
  }
  EXPECT_EQ(nlohmann::json::parse(lines[7])["error_kind"], "exception");
}

TEST(TrialExport, EndsWhenTheReaderHasClosed) {
  const SampleExperiment sample({.trials = 10});
  auto reader = ExperimentReader::open(sample.location).value();
  int calls = 0;
  EXPECT_TRUE(export_csv(reader, [&](std::string_view) { return ++calls < 3; }).ok());
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace mobula::internal::tune
