// Limits that control groups, version 1 or 2, put on this process. A group's limit binds those
// below it, so every question walks from the process's group up to the root. Reads files; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mobula::internal {

class CgroupLimits {
 public:
  // `self` is the file /proc/self/cgroup, `root` where the hierarchies are mounted.
  CgroupLimits(const std::string& self, std::string root);

  // CPUs' worth of time; nothing without a quota.
  std::optional<double> cpu_quota() const;
  // Bytes left below the tightest memory limit; nothing without one.
  std::optional<std::uint64_t> memory_headroom() const;

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
