#include "worker/process/watch/usage_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/fd.h"

namespace mobula::internal::worker {
namespace {

using StatText = std::array<char, 4096>;  // larger than the needed lines

std::string_view read_small(const std::string& path, StatText& buffer) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  return size <= 0 ? std::string_view()
                   : std::string_view(buffer.data(), static_cast<std::size_t>(size));
}

// Numbers separated by spaces, up to the first other character.
std::vector<std::int64_t> numbers_of(std::string_view text, std::size_t most) {
  std::vector<std::int64_t> numbers;
  while (numbers.size() < most) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    std::int64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc()) break;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  }
  return numbers;
}

}  // namespace

UsageWatch::UsageWatch(HostPaths paths)
    : paths_(std::move(paths)),
      page_bytes_(::sysconf(_SC_PAGESIZE)),
      ticks_per_second_(::sysconf(_SC_CLK_TCK)) {}

// Ticks of user, nice, system, idle, iowait, irq, softirq, steal.
void UsageWatch::sample_machine(UsageReply& reply) const {
  StatText buffer;
  std::string_view stat = read_small(paths_.proc + "/stat", buffer);
  if (stat.starts_with("cpu ")) {
    const auto ticks = numbers_of(stat.substr(4), 8);
    std::int64_t busy = 0;
    for (std::size_t i = 0; i < ticks.size(); ++i) busy += i == 3 || i == 4 ? 0 : ticks[i];
    reply.cpu = Duration(busy * (1'000'000'000 / ticks_per_second_));
  }
  reply.cpus = probe_cpus(paths_).online;
  if (const auto memory = probe_memory(paths_)) {
    reply.memory_bytes = static_cast<std::int64_t>(memory->total_bytes);
    reply.memory_used_bytes = static_cast<std::int64_t>(
        memory->total_bytes - std::min(memory->available_bytes, memory->total_bytes));
  }
}

// False: the process has exited.
bool UsageWatch::add(pid_t pid, ExecutorUsage& usage) const {
  StatText buffer;
  const std::string directory = fmt::format("{}/{}", paths_.proc, pid);
  const std::string_view stat = read_small(directory + "/stat", buffer);
  // The name in parentheses may contain any character. The state and numbers from ppid on follow
  // it.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 4 > stat.size()) return false;
  const auto numbers = numbers_of(stat.substr(name_end + 3), 17);
  if (numbers.size() < 17) return false;
  // Includes the time of reaped children, so that the sum keeps the use of processes that have
  // exited.
  const std::int64_t ticks = numbers[10] + numbers[11] + numbers[12] + numbers[13];
  const auto pages =
      numbers_of(read_small(directory + "/statm", buffer), 3);  // size resident shared
  if (pages.size() < 3) return false;
  usage.cpu += Duration(ticks * (1'000'000'000 / ticks_per_second_));
  usage.threads += static_cast<std::uint32_t>(numbers[16]);
  usage.resident_bytes += pages[1] * page_bytes_;
  usage.own_bytes += std::max<std::int64_t>(0, pages[1] - pages[2]) * page_bytes_;
  return true;
}

// The children of all threads of the process.
bool UsageWatch::append_children(pid_t pid, std::vector<pid_t>& processes,
                                 std::size_t& reads_left) const {
  std::error_code code;
  std::filesystem::directory_iterator threads(fmt::format("{}/{}/task", paths_.proc, pid), code);
  for (const std::filesystem::directory_iterator end; !code && threads != end;
       threads.increment(code)) {
    if (reads_left == 0) return false;
    --reads_left;
    StatText buffer;  // large enough for that count of numbers
    const auto children =
        numbers_of(read_small(threads->path().string() + "/children", buffer), max_below + 1);
    for (const auto child : children) {
      if (processes.size() > max_below) return false;
      processes.push_back(static_cast<pid_t>(child));
    }
  }
  return true;
}

void UsageWatch::add_below(pid_t pid, ExecutorUsage& usage, std::size_t& reads_left) const {
  std::vector<pid_t> processes{pid};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (i > 0 && !add(processes[i], usage)) continue;
    if (!append_children(processes[i], processes, reads_left)) usage.partial = true;
  }
}

UsageReply UsageWatch::node_alone(Time now) const {
  UsageReply reply;
  reply.at = now - Time();
  sample_machine(reply);
  for (const auto& gpu : gpus_.devices)
    reply.devices.push_back({gpu.device, gpu.used_bytes, gpu.busy_percent});
  return reply;
}

const UsageReply& UsageWatch::sample_now(Time now, const Executors& executors) {
  UsageReply& reply = last_.emplace(node_alone(now));
  std::size_t reads_left = max_children_reads;
  for (const auto& [each, running] : executors) {
    if (reply.executors.size() >= max_executors) {
      ++reply.left_out;
      continue;
    }
    ExecutorUsage usage;
    usage.slot = each.slot;
    usage.pid = each.pid;
    usage.running = running;
    if (!add(each.pid, usage)) continue;
    add_below(each.pid, usage, reads_left);
    for (const auto& gpu : gpus_.devices) {
      for (const auto& holder : gpu.executors) {
        const bool its = holder.slot == each.slot && holder.generation == each.generation;
        if (its) usage.devices.push_back({gpu.device, holder.bytes});
      }
    }
    reply.executors.push_back(std::move(usage));
  }
  return reply;
}

}  // namespace mobula::internal::worker
