// The thread that sends the progress of an experiment.
#include "tune/runtime/experiment/experiment_reporter.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <string>
#include <vector>

namespace mobula::internal::tune {
namespace {

TEST(ExperimentReporter, SendsLatestWhenHeadIsSlow) {
  std::vector<std::string> sent;
  std::binary_semaphore begun(0), answered(0);
  {
    ExperimentReporter reporter([&](const std::string& report) {
      sent.push_back(report);
      if (report != "a") return;
      begun.release();
      answered.acquire();
    });
    reporter.publish("a");
    begun.acquire();
    reporter.publish("b");
    reporter.publish("c");
    answered.release();
  }
  EXPECT_EQ(sent, (std::vector<std::string>{"a", "c"}));
}

TEST(ExperimentReporter, EndsWithoutReport) {
  ExperimentReporter reporter([](const std::string&) { FAIL(); });
}

}  // namespace
}  // namespace mobula::internal::tune
