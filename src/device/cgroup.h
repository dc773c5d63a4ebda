// Limits that control groups, version 1 or 2, put on this process. A group's limit binds those
// below it, so every question walks from the process's group up to the root. Reads files; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

// Where one group says what it may use and uses. Whole files, but for the last: one of lines "key
// value", of which `droppable` is what the kernel can take back of the use.
struct MemoryGroup {
  std::string path;  // for people
  std::string limit_file;
  std::string use_file;
  std::string stat_file;
  std::string droppable;
  std::string failures_file;  // how often somebody could not have more, since the limit was reached
  std::string failures_key;   // before the number; empty where it stands alone
};
// As in a limit file; nothing for "max", and for what version 1 writes in its place.
std::optional<std::uint64_t> memory_limit_of(std::string_view text);

class CgroupLimits {
 public:
  // `self` is the file /proc/self/cgroup, `root` where the hierarchies are mounted.
  CgroupLimits(const std::string& self, std::string root);

  // CPUs' worth of time; nothing without a quota.
  std::optional<double> cpu_quota() const;
  // Bytes left below the tightest memory limit; nothing without one.
  std::optional<std::uint64_t> memory_headroom() const;
  // The groups this process is in that have files of memory limits, the nearest first, whether or not
  // a limit is set now: for whoever looks again and again.
  std::vector<MemoryGroup> memory_groups() const;

 private:
  // The folders from the group of `controller` to the root; "" is version 2.
  std::vector<std::string> folders(const std::string& controller) const;

  struct Membership {
    std::string controllers;  // "cpu,cpuacct"; empty: version 2
    std::string path;
  };
  std::string root_;
  std::vector<Membership> memberships_;
};

// The whole text of a small file; nothing if it cannot be read.
std::optional<std::string> small_file(const std::string& path);

}  // namespace mobula::internal
