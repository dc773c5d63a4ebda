#include "device/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace mobula::internal {
namespace {

// Version 1 encodes "no limit" as the largest number of whole pages.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

std::optional<std::uint64_t> number_of(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in_file(const std::string& path) {
  const auto text = small_file(path);
  return text ? number_of(*text) : std::nullopt;
}

// Value of `key` in a file of lines "key value".
std::uint64_t field_in_file(const std::string& path, std::string_view key) {
  std::istringstream text(small_file(path).value_or(""));
  std::string name;
  std::uint64_t value = 0;
  while (text >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

bool names_controller(const std::string& list, const std::string& controller) {
  std::istringstream text(list);
  for (std::string each; std::getline(text, each, ',');) {
    if (each == controller) return true;
  }
  return list.empty() && controller.empty();
}

template <class T>
void lower_to(std::optional<T>& limit, T found) {
  if (!limit || found < *limit) limit = found;
}

std::uint64_t headroom(std::uint64_t limit, std::uint64_t used, std::uint64_t droppable) {
  const std::uint64_t held = used - std::min(used, droppable);
  return limit - std::min(limit, held);
}

}  // namespace

std::optional<std::string> small_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<std::uint64_t> memory_limit_of(std::string_view text) {
  const auto number = number_of(text);
  return number && *number < no_limit ? number : std::nullopt;
}

CgroupLimits::CgroupLimits(const std::string& self, std::string root) : root_(std::move(root)) {
  std::istringstream text(small_file(self).value_or(""));
  for (std::string line; std::getline(text, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    memberships_.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
}

std::vector<std::string> CgroupLimits::directories(const std::string& controller) const {
  std::vector<std::string> found;
  for (const auto& membership : memberships_) {
    if (!names_controller(membership.controllers, controller)) continue;
    const std::string hierarchy = controller.empty() ? root_ : root_ + "/" + controller;
    // In a container, the path can be that of the host and not exist here. Then only the root is
    // found, which is the container's own group.
    for (std::string path = membership.path; path.size() > 1;) {
      found.push_back(hierarchy + path);
      path.resize(path.rfind('/'));
    }
    found.push_back(hierarchy);
    break;
  }
  return found;
}

std::optional<double> CgroupLimits::cpu_quota() const {
  std::optional<double> quota;
  for (const std::string& directory : directories("")) {
    std::istringstream text(small_file(directory + "/cpu.max").value_or(""));
    std::string granted;
    double period = 0;
    if (!(text >> granted >> period) || period <= 0) continue;
    if (const auto number = number_of(granted)) {
      lower_to(quota, static_cast<double>(*number) / period);
    }
  }
  for (const std::string& directory : directories("cpu")) {
    const auto granted = number_in_file(directory + "/cpu.cfs_quota_us");  // "-1": no quota
    const auto period = number_in_file(directory + "/cpu.cfs_period_us");
    if (granted && period && *period > 0) {
      lower_to(quota, static_cast<double>(*granted) / static_cast<double>(*period));
    }
  }
  return quota;
}

std::vector<MemoryGroup> CgroupLimits::memory_groups() const {
  std::vector<MemoryGroup> groups;
  const auto add = [&](const char* controller, const char* limit, const char* use,
                       const char* droppable, const char* failures, const char* failures_key) {
    for (const std::string& directory : directories(controller)) {
      MemoryGroup group{directory.substr(root_.size()),
                        directory + "/" + limit,
                        directory + "/" + use,
                        directory + "/memory.stat",
                        droppable,
                        directory + "/" + failures,
                        failures_key};
      if (group.path.empty()) group.path = "/";
      if (small_file(group.limit_file) && small_file(group.use_file)) groups.push_back(group);
    }
  };
  add("", "memory.max", "memory.current", "inactive_file", "memory.events", "oom ");
  add("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
      "memory.failcnt", "");
  return groups;
}

std::optional<std::uint64_t> CgroupLimits::memory_headroom() const {
  std::optional<std::uint64_t> left;
  for (const MemoryGroup& group : memory_groups()) {
    const auto limit = memory_limit_of(small_file(group.limit_file).value_or(""));
    const auto used = number_in_file(group.use_file);
    if (!limit || !used) continue;
    lower_to(left, headroom(*limit, *used, field_in_file(group.stat_file, group.droppable)));
  }
  return left;
}

}  // namespace mobula::internal
