#include "worker/process/log_disk_quota.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view log_prefix = "job-";
constexpr std::size_t id_digits = 32;

}  // namespace

LogDiskQuota::LogDiskQuota(std::string directory, JobLogSpaceLimits limits)
    : directory_(std::move(directory)), limits_(limits) {
  std::map<JobId, fs::file_time_type> changed;
  std::error_code code;
  for (fs::directory_iterator at(directory_, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(log_prefix) || !name.ends_with(".log")) continue;
    const auto bits = bits_from_hex(name.substr(log_prefix.size(), id_digits));
    std::error_code gone;
    const auto size = at->file_size(gone);
    const auto time = at->last_write_time(gone);
    if (!bits || gone) continue;
    const JobId job(*bits);
    count(job, rows_[job].bytes + size);
    const auto [latest, first] = changed.try_emplace(job, time);
    if (!first) latest->second = std::max(latest->second, time);
  }
  for (const auto& [job, row] : rows_) (row.bytes == 0 ? empty_ : ended_).push_back(job);
  const auto earlier = [&](JobId a, JobId b) {
    return std::pair(changed[a], a) < std::pair(changed[b], b);
  };
  std::ranges::sort(ended_, earlier);
  std::ranges::sort(empty_, earlier);
  free_space_for(0);
}

// An equal share of the quota, in segments.
std::size_t LogDiskQuota::segments_each() const {
  const std::uint64_t fair =
      limits_.bytes / limits_.each.segment_bytes / std::max<std::size_t>(running_, 1);
  return std::clamp<std::size_t>(static_cast<std::size_t>(fair), 1, limits_.each.segments);
}

JobLog LogDiskQuota::open(JobId job) {
  Row& row = rows_[job];
  if (row.running++ == 0) ++running_;
  std::erase(ended_, job);
  std::erase(empty_, job);
  JobLog log = JobLog::open(directory_, job, limits_.each);
  count(job, log.kept_bytes());
  return log;
}

void LogDiskQuota::append(JobLog& log, std::string_view bytes) {
  log.keep(segments_each());
  count(log.job(), log.kept_bytes());
  free_space_for(bytes.size());
  if (bytes_ + bytes.size() > limits_.bytes) return log.lose(bytes.size());
  log.append(bytes);
  count(log.job(), log.kept_bytes());
}

void LogDiskQuota::ended(const JobLog& log) {
  const auto at = rows_.find(log.job());
  if (at == rows_.end() || at->second.running == 0 || --at->second.running > 0) return;
  --running_;
  if (log.end() == 0) {
    rows_.erase(at);  // no output, therefore no file
    return;
  }
  (at->second.bytes == 0 ? empty_ : ended_).push_back(log.job());
  free_space_for(0);
}

void LogDiskQuota::count(JobId job, std::uint64_t bytes) {
  Row& row = rows_[job];
  bytes_ += bytes - row.bytes;
  row.bytes = bytes;
}

void LogDiskQuota::free_space_for(std::uint64_t wanted) {
  while (!ended_.empty() && bytes_ + wanted > limits_.bytes) remove_oldest();
  while (ended_.size() + empty_.size() > limits_.ended_jobs) {
    if (empty_.empty()) remove_oldest();
    remove_job_log(directory_, empty_.front(), false);
    rows_.erase(empty_.front());
    empty_.pop_front();
  }
}

void LogDiskQuota::remove_oldest() {
  const JobId job = ended_.front();
  ended_.pop_front();
  remove_job_log(directory_, job, true);
  count(job, 0);
  empty_.push_back(job);
}

}  // namespace mobula::internal::worker
