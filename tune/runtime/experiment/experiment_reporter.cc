#include "tune/runtime/experiment/experiment_reporter.h"

#include <utility>

#include "base/thread_start.h"

namespace mobula::internal::tune {

ExperimentReporter::ExperimentReporter(Send send) : send_(std::move(send)) {}

ExperimentReporter::~ExperimentReporter() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ExperimentReporter::publish(std::string report) {
  {
    const MutexLock lock(mutex_);
    report_ = std::move(report);
  }
  changed_.notify_one();
  if (thread_.joinable()) return;
  // Without a thread, the page lacks the experiment.
  if (auto started = start_thread("tune reporter", [this] { send_reports(); }))
    thread_ = std::move(*started);
}

void ExperimentReporter::send_reports() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!report_ && !ends_) changed_.wait(lock);
    if (!report_) return;
    const std::string report = *std::exchange(report_, std::nullopt);
    lock.unlock();
    send_(report);
    lock.lock();
  }
}

}  // namespace mobula::internal::tune
