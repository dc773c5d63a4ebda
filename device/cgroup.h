// Limits of control groups (versions 1 and 2) on this process. A limit also binds descendants, so
// each query visits the groups from the process up to the root.
// Thread: any. Reads files on each call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

// Files with the memory limit and use of one group. `stat_file` has lines "key value"; its key
// `droppable` is the part of the use that the kernel can reclaim.
struct MemoryGroup {
  std::string path;  // human-readable
  std::string limit_file;
  std::string use_file;
  std::string stat_file;
  std::string droppable;
  std::string failures_file;  // counter of allocations that failed at the limit
  std::string failures_key;   // key of the counter; empty: the file holds only the number
};
// Parses a limit file. Empty for "max" and for its equivalent in version 1.
std::optional<std::uint64_t> memory_limit_of(std::string_view text);

class CgroupLimits {
 public:
  // `self` is the file /proc/self/cgroup, `root` the mount point of the hierarchies.
  CgroupLimits(const std::string& self, std::string root);

  // CPU quota in CPUs; empty without a quota.
  std::optional<double> cpu_quota() const;
  // Bytes left below the tightest memory limit; empty without a limit.
  std::optional<std::uint64_t> memory_headroom() const;
  // Groups of this process with memory limit files, innermost first, with or without a limit at
  // present. For callers that sample them repeatedly.
  std::vector<MemoryGroup> memory_groups() const;

 private:
  // Directories from the group of `controller` to the root; "" means version 2.
  std::vector<std::string> directories(const std::string& controller) const;

  struct Membership {
    std::string controllers;  // "cpu,cpuacct"; empty: version 2
    std::string path;
  };
  std::string root_;
  std::vector<Membership> memberships_;
};

// Content of a small file; empty if it cannot be read.
std::optional<std::string> small_file(const std::string& path);

}  // namespace mobula::internal
