#include "head/service_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mobula::internal::head {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident_pages = 0;
  file >> pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

std::int64_t open_descriptors() {
  std::error_code fault;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", fault), end; !fault && at != end;
       at.increment(fault)) {
    ++count;
  }
  return count;
}

void add_process(MetricsWriter& out, std::int64_t started_ms) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  out.family("process_cpu_seconds_total", "counter", "Processor time of the head.");
  out.sample("", seconds(usage.ru_utime) + seconds(usage.ru_stime));
  out.family("process_resident_memory_bytes", "gauge", "Resident memory of the head.");
  out.sample("", resident_bytes());
  out.family("process_open_fds", "gauge", "Open file descriptors of the head.");
  out.sample("", open_descriptors());
  out.family("process_max_fds", "gauge", "Limit of open file descriptors of the head.");
  out.sample("", static_cast<std::uint64_t>(descriptors.rlim_cur));
  out.family("process_start_time_seconds", "gauge", "Start of the head since 1970.");
  out.sample("", static_cast<double>(started_ms) / 1000);
}

}  // namespace

void ServiceMetrics::committed(std::uint64_t upto, Time now) {
  while (!commits_.empty() && commits_.begin()->first <= upto) {
    commit_seconds_.add(now - commits_.begin()->second);
    commits_.erase(commits_.begin());
  }
}

void ServiceMetrics::commit_failed(std::uint64_t upto) {
  ++commit_failures_;
  commits_.erase(commits_.begin(), commits_.upper_bound(upto));
}

std::string ServiceMetrics::text(const RejectedMessages& rejected, const UseRingState& ring) const {
  MetricsWriter out;
  out.family("mobula_journal_commit_seconds", "histogram", "Time until a batch is on the disk.");
  out.histogram("", commit_seconds_.counts, commit_seconds_.total_us);
  out.family("mobula_journal_failures_total", "counter", "Failed writes of the journal.");
  out.sample("", commit_failures_);
  out.family("mobula_loop_lag_seconds", "histogram", "Time for which the head's loop was blocked.");
  out.histogram("", loop_lag_.counts, loop_lag_.total_us);
  out.family("mobula_messages_refused_total", "counter", "Dropped or rejected messages.");
  out.sample(MetricsWriter::label("why", "undecodable"), rejected.undecodable);
  out.sample(MetricsWriter::label("why", "permission"), rejected.out_of_role);
  out.sample(MetricsWriter::label("why", "class_use"), rejected.class_use);
  out.family("mobula_use_ring_seconds", "gauge", "Time that the recorded class use covers.");
  out.sample("", static_cast<double>(ring.latest_ms - ring.oldest_ms) / 1000);
  out.family("mobula_use_ring_bytes", "gauge", "Size of the recorded class use.");
  out.sample("", ring.bytes);
  out.family("mobula_use_ring_dropped_total", "counter", "Reports of class use not recorded.");
  out.sample("", ring.dropped);
  add_process(out, started_ms_);
  return std::move(out).take();
}

}  // namespace mobula::internal::head
