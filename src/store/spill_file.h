// Files of spilled objects: many values one after the other, each with a checksum that its reader
// brings along, so that a file that is shorter than it was, or of which bytes have changed, is
// noticed. A file is written once. Functions; they block for the disk; any thread.
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

// Of these bytes and their number. Notices what disks do, not what people do.
Hash128 spill_checksum(std::span<const std::byte> bytes);

// Fails with resource_exhausted if `bytes` more would fill the file system of `folder` beyond
// `cap_percent` of it, or if it cannot be asked.
Result<void> check_disk_room(const std::string& folder, std::uint64_t bytes, int cap_percent);

// Makes a file of mode 0600 that must not exist. Whatever fails, there is none then; `stop` is one
// reason. resource_exhausted when the disk is full, else unavailable.
Result<std::vector<SpilledRun>> write_spill_file(
    const std::string& path, const std::vector<std::span<const std::byte>>& values,
    const std::atomic<bool>& stop);

// Fills `into`. corrupt if the file is not there, cannot be read or holds other bytes.
Result<void> read_spilled(const std::string& path, const SpilledRun& run,
                          std::span<std::byte> into);

}  // namespace mobula::internal
