// Sends the progress of an experiment to the head from a separate thread, because an experiment
// must not wait for an absent head. Only the latest report is kept.
// Thread: owner; `send` runs on the thread of the reporter.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace mobula::internal::tune {

class ExperimentReporter {
 public:
  // Sends a report, and blocks for a bounded time.
  using Send = std::function<void(const std::string& report)>;

  explicit ExperimentReporter(Send send);
  // Sends the last report, if it was not sent, and joins the thread.
  ~ExperimentReporter();
  ExperimentReporter(const ExperimentReporter&) = delete;
  ExperimentReporter& operator=(const ExperimentReporter&) = delete;

  // Replaces a report that was not sent.
  void publish(std::string report);

 private:
  void send_reports();

  const Send send_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<std::string> report_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // starts with the first report
};

}  // namespace mobula::internal::tune
