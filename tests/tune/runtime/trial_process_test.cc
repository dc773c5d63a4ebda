// The exchange of reports and orders in the process of a trial, without a cluster.
#include <gtest/gtest.h>
#include <mobula/detail/runtime.h>
#include <mobula/detail/tune_trainable.h>
#include <mobula/tune/trial.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "client/fake_runtime.h"

namespace mobula::tune::detail {
namespace {

// Reports once, and returns without the decision.
class Reporter final : public TrialProcess {
  void body(const Config& /*config*/) override { tune::report({{"loss", 1}}, {.wait = false}); }
};

class TrialProcessTest : public ::testing::Test {
 protected:
  TrialProcessTest() {
    mobula::detail::install_runtime(std::make_shared<mobula::testing::FakeRuntime>());
    std::string name = ::testing::TempDir() + "/mobula-trial-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~TrialProcessTest() override {
    mobula::detail::install_runtime(nullptr);
    std::filesystem::remove_all(directory_);
  }

  void run(std::uint64_t start) { process_.run({.number = start, .directory = directory_}); }
  Deferred<TrialNews> next(std::uint64_t start) { return process_.next({.start = start}); }
  static bool is_answered(const Deferred<TrialNews>& call) { return call.state()->is_complete(); }
  static const TrialNews& news(const Deferred<TrialNews>& call) { return *call.state()->value; }

  Reporter process_;

 private:
  std::string directory_;
};

TEST_F(TrialProcessTest, ReportOfNewStart_WaitsForItsCall) {
  const auto first = next(1);
  run(1);
  ASSERT_EQ(news(first).reports.size(), 1U);
  ASSERT_EQ(news(next(1)).exit, TrialExit::returned);
  const auto earlier = next(1);
  run(2);
  EXPECT_FALSE(is_answered(earlier));
  const auto later = next(2);
  ASSERT_TRUE(is_answered(later));
  EXPECT_EQ(news(later).reports.size(), 1U);
  EXPECT_EQ(news(later).exit, TrialExit::returned);
  ASSERT_TRUE(is_answered(earlier));
  EXPECT_TRUE(news(earlier).reports.empty());
}

TEST_F(TrialProcessTest, OrderOfEarlierStart_GetsNoNews) {
  run(2);
  const auto late = next(1);
  ASSERT_TRUE(is_answered(late));
  EXPECT_TRUE(news(late).reports.empty());
  EXPECT_EQ(news(next(2)).reports.size(), 1U);
}

TEST_F(TrialProcessTest, SecondOrder_AnswersTheFirst) {
  const auto first = next(1), second = next(1);
  ASSERT_TRUE(is_answered(first));
  EXPECT_TRUE(news(first).reports.empty());
  run(1);
  EXPECT_EQ(news(second).reports.size(), 1U);
}

}  // namespace
}  // namespace mobula::tune::detail
