#include "tune/store/experiment_reader.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "store_fixture.h"

namespace mobula::internal::tune {
namespace {

using ::testing::ElementsAre;

class ExperimentReaderTest : public StoreTest {
 protected:
  void write(std::vector<StoreChange> changes) {
    if (store_ == nullptr) store_ = create();
    store_->write({++number_, std::move(changes)});
    ASSERT_TRUE(notes_.wait_for(number_));
  }
  static std::vector<TrialNumber> numbers(const std::vector<StoredTrial>& trials) {
    std::vector<TrialNumber> numbers;
    for (const auto& each : trials) numbers.push_back(each.trial);
    return numbers;
  }

  std::unique_ptr<ExperimentStore> store_;
  std::uint64_t number_ = 0;
};

TEST_F(ExperimentReaderTest, ReadsEveryMemberOfTrial) {
  StoredTrial row = trial(0, TrialState::failed);
  row.parent = 4;
  row.bracket = 2;
  row.attempts = 3;
  row.ended_ms = 1'700'000'009'000;
  row.error_kind = "exception";
  row.error = std::string("bad\0byte \xff", 10);
  write({row});
  const auto read_row = read().trial(0).value();
  EXPECT_EQ(read_row.config, row.config);
  EXPECT_EQ(read_row.parent, row.parent);
  EXPECT_EQ(read_row.bracket, 2);
  EXPECT_EQ(read_row.attempts, 3);
  EXPECT_EQ(read_row.ended_ms, row.ended_ms);
  EXPECT_EQ(read_row.node, "node-1");
  EXPECT_EQ(read_row.error, row.error);
}

TEST_F(ExperimentReaderTest, FiltersAndLimitsTrials) {
  write({trial(0, TrialState::terminated), trial(1, TrialState::failed), trial(2),
         trial(3, TrialState::failed)});
  auto reader = read();
  EXPECT_THAT(numbers(reader.trials({.state = TrialState::failed}).value()), ElementsAre(1, 3));
  EXPECT_THAT(numbers(reader.trials({.limit = 2, .newest = true}).value()), ElementsAre(2, 3));
  const auto counts = reader.counts().value();
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts[0].state, TrialState::failed);
  EXPECT_EQ(counts[0].count, 2);
}

TEST_F(ExperimentReaderTest, OrdersBestTrialsByMetric) {
  write({trial(0), trial(1), trial(2), trial(3), report(0, 1, 3), report(0, 2, 1), report(0, 3, 2),
         report(1, 1, 0.5), report(2, 1, std::numeric_limits<double>::quiet_NaN())});
  auto reader = read();
  const auto best = reader.best(5).value();
  EXPECT_THAT(numbers(best), ElementsAre(1, 0));
  EXPECT_EQ(best[1].best, 1.0);
  EXPECT_EQ(best[1].last, 2.0);
  EXPECT_EQ(best[1].last_step, 3);
}

TEST_F(ExperimentReaderTest, ReadsMetricsOfEveryKind) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  write({trial(0), StoredReport{0, 1, 1, 5, {{"loss", nan}, {"note", "text"}, {"size", 3}}},
         StoredReport{0, 1, 2, 6, {{"loss", 1.5}}}});
  const auto reports = read().reports(0).value();
  ASSERT_EQ(reports.size(), 2u);
  ASSERT_EQ(reports[0].metrics.size(), 3u);
  EXPECT_TRUE(std::isnan(reports[0].metrics[0].second.number()));
  EXPECT_EQ(reports[0].metrics[1].second.text(), "text");
  EXPECT_EQ(reports[0].metrics[2].second.number(), 3);
  EXPECT_EQ(reports[1].metrics, (StoredMetrics{{"loss", 1.5}}));
}

TEST_F(ExperimentReaderTest, KeepsReportsOfEveryAttemptInOrder) {
  // The clock jumps back between the reports.
  write({trial(0), StoredReport{0, 1, 1, 9000, {{"loss", 3}}},
         StoredReport{0, 1, 2, 100, {{"loss", 2}}}, StoredReport{0, 2, 1, 50, {{"loss", 1}}}});
  auto reader = read();
  std::vector<double> losses;
  ASSERT_TRUE(reader
                  .each_report([&](const StoredReport& each) {
                    losses.push_back(each.metrics.at(0).second.number());
                  })
                  .ok());
  EXPECT_THAT(losses, ElementsAre(3, 2, 1));
  const auto points = reader.points("loss").value();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2].attempt, 2);
}

TEST_F(ExperimentReaderTest, NamesRangeOfTrials) {
  write({trial(0), trial(1)});
  const auto unknown = read().trial(2);
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  EXPECT_THAT(unknown.error().text, ::testing::HasSubstr("the numbers are 0 to 1"));
}

TEST_F(ExperimentReaderTest, ListsExperimentsOfStorage) {
  write({trial(0)});
  std::filesystem::create_directory(location_.storage + "/empty");
  EXPECT_THAT(experiment_names(location_.storage), ElementsAre("mnist"));
  EXPECT_TRUE(experiment_names(location_.storage + "/absent").empty());
}

}  // namespace
}  // namespace mobula::internal::tune
