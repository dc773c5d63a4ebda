// Files of spilled objects: many values in sequence, written once. The reader provides a checksum
// per value, so truncated or changed files are detected.
// Thread: any (functions). All functions block on the disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace mobula::internal {

struct SpilledRun {
  std::uint64_t offset = 0;
  Hash128 checksum;
};

// Checksum of the bytes and their number. It detects disk faults, not attacks.
Hash128 spill_checksum(std::span<const std::byte> bytes);

// Space of a file system, in bytes. The share that is reserved for root belongs to neither member,
// as in df(1).
struct DiskSpace {
  std::uint64_t used = 0;
  std::uint64_t available = 0;
};

// Checks that `bytes` more keep the file system at or below `cap_percent` of its used and available
// space. Errors: resource_exhausted above it, otherwise the failure of statvfs().
Result<void> check_disk_space(const DiskSpace& disk, std::uint64_t bytes, int cap_percent);
Result<void> check_disk_space(const std::string& directory, std::uint64_t bytes, int cap_percent);

// Creates a file of mode 0600 that must not exist. After a failure the file does not exist. Stops
// with `cancelled` if `stop` is set. Errors: resource_exhausted if the disk is full, otherwise
// unavailable.
Result<std::vector<SpilledRun>> write_spill_file(
    const std::string& path, const std::vector<std::span<const std::byte>>& values,
    const std::atomic<bool>& stop);

// Fills `into`. Errors: unavailable without descriptors or memory; corrupt if the file is missing,
// unreadable, or has other bytes.
Result<void> read_spilled(const std::string& path, const SpilledRun& run,
                          std::span<std::byte> into);

}  // namespace mobula::internal
