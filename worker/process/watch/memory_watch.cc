#include "worker/process/watch/memory_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "device/cgroup.h"

namespace mobula::internal::worker {
namespace {

// Larger than the part of each file that contains the needed lines.
using Text = std::array<char, 8192>;

std::string_view read_again(const Fd& file, Text& buffer) {
  if (!file) return {};
  const ssize_t size = ::pread(file.get(), buffer.data(), buffer.size(), 0);
  return size <= 0 ? std::string_view()
                   : std::string_view(buffer.data(), static_cast<std::size_t>(size));
}

Fd open_to_read(const std::string& path) { return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

std::optional<std::int64_t> number_at(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// The number after `key` at the beginning of a line.
std::optional<std::int64_t> field_of(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return number_at(text.substr(at + key.size()));
  }
  return std::nullopt;
}

}  // namespace

MemoryWatch::MemoryWatch(MemoryWatchOptions options)
    : options_(std::move(options)),
      page_bytes_(::sysconf(_SC_PAGESIZE)),
      meminfo_(open_to_read(options_.paths.proc + "/meminfo")) {
  const CgroupLimits limits(options_.paths.proc + "/self/cgroup", options_.paths.cgroup);
  for (MemoryGroup& group : limits.memory_groups()) {
    std::string used_lately = group.droppable;
    if (const auto at = used_lately.find("inactive"); at != used_lately.npos)
      used_lately.erase(at, 2);
    Group& added = groups_.emplace_back(
        Group{std::move(group.path), open_to_read(group.limit_file), open_to_read(group.use_file),
              open_to_read(group.stat_file), open_to_read(group.failures_file),
              group.droppable + " ", used_lately + " ", std::move(group.failures_key)});
    added.failures_last = added.failures_before = failures_of(added);
  }
}

std::int64_t MemoryWatch::failures_of(const Group& group) {
  Text buffer;
  const std::string_view text = read_again(group.failures, buffer);
  const auto number =
      group.failures_key.empty() ? number_at(text) : field_of(text, group.failures_key);
  return number.value_or(0);
}

MemorySampled MemoryWatch::lately() const {
  for (const Group& group : groups_) {
    if (failures_of(group) <= group.failures_before) continue;
    Text buffer;
    const auto limit = memory_limit_of(read_again(group.limit, buffer));
    if (!limit) continue;
    const auto bytes = static_cast<std::int64_t>(*limit);
    return {"memory of control group " + group.path, bytes, bytes, {}};
  }
  const auto part = [](const MemorySampled& sample) {
    return sample.limit_bytes == 0
               ? 0.0
               : static_cast<double>(sample.used_bytes) / static_cast<double>(sample.limit_bytes);
  };
  return part(before_) > part(last_) ? before_ : last_;
}

void MemoryWatch::consider(MemorySampled& nearest, std::string of, std::int64_t used,
                           std::int64_t limit) const {
  if (limit <= 0) return;
  const auto part = [](std::int64_t use, std::int64_t whole) {
    return static_cast<double>(use) / static_cast<double>(whole);
  };
  if (nearest.limit_bytes > 0 &&
      part(used, limit) <= part(nearest.used_bytes, nearest.limit_bytes)) {
    return;
  }
  nearest.of = std::move(of);
  nearest.used_bytes = used;
  nearest.limit_bytes = limit;
}

void MemoryWatch::sample_machine(MemorySampled& nearest) const {
  Text buffer;
  const std::string_view text = read_again(meminfo_, buffer);
  const auto total = field_of(text, "MemTotal:");
  const auto available = field_of(text, "MemAvailable:");
  if (!total || !available) return;
  consider(nearest, "memory of the node", (*total - *available) * 1024, *total * 1024);
}

// Reclaimable memory is read only if the use exceeds the threshold without that correction.
void MemoryWatch::sample_group(const Group& group, MemorySampled& nearest) const {
  Text buffer;
  const auto limit = memory_limit_of(read_again(group.limit, buffer));
  if (!limit) return;
  auto used = number_at(read_again(group.use, buffer));
  if (!used) return;
  const auto most = static_cast<std::int64_t>(*limit);
  if (*used > most / 1000 * options_.threshold_permille) {
    const std::string_view text = read_again(group.stat, buffer);
    const auto droppable = field_of(text, group.droppable).value_or(0) +
                           field_of(text, group.also_droppable).value_or(0);
    *used -= std::min(*used, droppable);
  }
  consider(nearest, "memory of control group " + group.path, *used, most);
}

std::optional<std::int64_t> MemoryWatch::own_bytes(pid_t pid) const {
  Text buffer;
  const std::string_view text =
      read_again(open_to_read(fmt::format("{}/{}/statm", options_.paths.proc, pid)), buffer);
  // size resident shared ...
  const auto second = text.find(' ');
  if (second == text.npos) return std::nullopt;
  const auto third = text.find(' ', second + 1);
  if (third == text.npos) return std::nullopt;
  const auto resident = number_at(text.substr(second));
  const auto shared = number_at(text.substr(third));
  if (resident.value_or(0) == 0) return std::nullopt;  // a zombie has no pages
  return std::max<std::int64_t>(0, *resident - shared.value_or(0)) * page_bytes_;
}

void MemoryWatch::weigh(MemorySampled& sample,
                        const std::vector<WatchedExecutor>& executors) const {
  for (const WatchedExecutor& each : executors) {
    const auto bytes = own_bytes(each.pid);
    sample.executors.push_back({each.slot, each.generation, bytes.value_or(0), !bytes});
  }
}

std::optional<MemorySampled> MemoryWatch::sample(
    const std::function<std::vector<WatchedExecutor>()>& executors) {
  MemorySampled sample;
  sample_machine(sample);
  for (const Group& group : groups_) sample_group(group, sample);
  if (options_.executors_limit) {
    weigh(sample, executors());
    std::int64_t used = 0;
    for (const ExecutorMemory& each : sample.executors) used += each.bytes;
    consider(sample, "memory of the executors", used, *options_.executors_limit);
  }
  before_ = std::move(last_);
  last_ = {sample.of, sample.used_bytes, sample.limit_bytes, {}};
  for (Group& group : groups_) {
    group.failures_before = std::exchange(group.failures_last, failures_of(group));
  }
  const bool is_short = sample.limit_bytes > 0 &&
                        sample.used_bytes > sample.limit_bytes / 1000 * options_.threshold_permille;
  if (!is_short && !std::exchange(reported_, false)) return std::nullopt;
  reported_ = is_short;
  if (is_short && sample.executors.empty()) weigh(sample, executors());
  return sample;
}

}  // namespace mobula::internal::worker
