#include "worker/process/slot_logs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/logging/log.h"
#include "base/logging/rotated_log.h"

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_read_bytes = 1u << 20;
constexpr std::size_t job_digits = 32;
constexpr std::string_view slot_prefix = "slot-";
constexpr std::string_view log_ending = ".log";

std::vector<std::string> paths_of(const std::string& path) { return {path, path + ".1"}; }

struct Sizes {
  std::uint64_t bytes = 0;
  std::int64_t changed_ms = 0;
};

Sizes sizes_of(const std::vector<std::string>& paths) {
  Sizes sizes;
  for (const auto& path : paths) {
    struct stat seen {};
    if (::stat(path.c_str(), &seen) != 0) continue;
    sizes.bytes += static_cast<std::uint64_t>(seen.st_size);
    sizes.changed_ms =
        std::max<std::int64_t>(sizes.changed_ms, std::int64_t{seen.st_mtim.tv_sec} * 1000 +
                                                     seen.st_mtim.tv_nsec / 1'000'000);
  }
  return sizes;
}

}  // namespace

SlotLogs::SlotLogs(std::string directory, SlotLogLimits limits)
    : directory_(std::move(directory)), limits_(limits) {
  std::map<std::string, std::int64_t> changed;
  std::error_code code;
  for (fs::directory_iterator at(directory_, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(slot_prefix) || !name.ends_with(log_ending)) continue;
    const std::string log = name.substr(0, name.find('.'));
    const std::string rest = name.substr(log.size());
    Row row;
    if (rest.size() == 1 + job_digits + log_ending.size()) {
      if (const auto bits = bits_from_hex(rest.substr(1, job_digits))) row.job = JobId(*bits);
    }
    row.path = at->path().string();
    const Sizes sizes = sizes_of(paths_of(row.path));
    row.bytes = sizes.bytes;
    bytes_ += row.bytes;
    changed[log] = sizes.changed_ms;
    if (rows_.insert_or_assign(log, std::move(row)).second) ended_.push_back(log);
  }
  std::ranges::sort(ended_, {},
                    [&](const std::string& log) { return std::pair(changed[log], log); });
  enforce_limits();
}

CappedLog* SlotLogs::open(SlotId slot, JobId job) {
  if (const auto at = open_.find(slot); at != open_.end()) return &at->second;
  const std::string log = log_of_slot(slot);
  std::string path = fmt::format("{}/{}.{}{}", directory_, log, job.hex(), log_ending);
  auto file = CappedLog::open(path);
  if (!file) {
    log_warn("a slot has no log: {}", file.error().text);
    return nullptr;
  }
  if (const auto before = rows_.find(log); before != rows_.end() && !before->second.open) {
    bytes_ -= before->second.bytes;
    std::erase(ended_, log);
  }
  rows_[log] = {job, std::move(path), 0, true};
  return &open_.emplace(slot, std::move(*file)).first->second;
}

void SlotLogs::close(SlotId slot) {
  if (open_.erase(slot) == 0) return;
  const std::string log = log_of_slot(slot);
  Row& row = rows_.at(log);
  row.open = false;
  row.bytes = sizes_of(paths_of(row.path)).bytes;
  bytes_ += row.bytes;
  ended_.push_back(log);
  enforce_limits();
}

void SlotLogs::enforce_limits() {
  while (!ended_.empty() && (ended_.size() > limits_.ended || bytes_ > limits_.bytes)) {
    const auto at = rows_.find(ended_.front());
    for (const auto& path : paths_of(at->second.path)) {
      std::error_code ignored;
      fs::remove(path, ignored);
    }
    bytes_ -= at->second.bytes;
    rows_.erase(at);
    ended_.pop_front();
  }
}

LogsReply SlotLogs::list(const LogsRequest& question) const {
  LogsReply listed;
  listed.request = question.request;
  const auto add = [&](const std::string& log, JobId job, const std::vector<std::string>& paths,
                       bool open) {
    const Sizes sizes = sizes_of(paths);
    if (sizes.changed_ms != 0)
      listed.logs.push_back({log, job, sizes.bytes, sizes.changed_ms, open});
  };
  if (question.job.empty())
    add(log_of_agent, {}, {directory_ + "/agent.log", directory_ + "/agent.1.log"}, true);
  for (const auto& [log, row] : rows_) {
    if (question.job.empty() || row.job == question.job)
      add(log, row.job, paths_of(row.path), row.open);
  }
  const auto later = [](const LogFact& a, const LogFact& b) {
    return std::pair(a.changed_ms, a.log) > std::pair(b.changed_ms, b.log);
  };
  std::ranges::sort(listed.logs, later);
  if (listed.logs.size() > question.limit) {
    listed.left_out = listed.logs.size() - question.limit;
    listed.logs.resize(question.limit);
  }
  return listed;
}

ReadLogReply SlotLogs::read(const ReadLogRequest& question) const {
  ReadLogReply part;
  part.request = question.request;
  part.next_file = question.file;
  part.next_from = question.from;
  std::vector<std::string> paths;
  if (question.log == log_of_agent) {
    paths = {directory_ + "/agent.log", directory_ + "/agent.1.log"};
    part.open = true;
  } else if (const auto row = rows_.find(question.log); row != rows_.end()) {
    paths = paths_of(row->second.path);
    part.open = row->second.open;
  }
  auto read = paths.empty() ? Result<LogBytes>(failure(ErrorCode::not_found, "no such log exists"))
                            : read_log(paths, {question.file, question.from},
                                       std::min(question.limit, max_read_bytes));
  if (!read) {
    part.fault = read.error().text;
    return part;
  }
  part.bytes = Payload(read->bytes);
  part.next_file = read->next.file;
  part.next_from = read->next.from;
  part.left = read->left;
  part.lost = read->lost;
  return part;
}

}  // namespace mobula::internal::worker
