#include "transport/tensor/limits.h"

#include <fmt/format.h>

namespace mobula::internal {
namespace {

Result<void> check_kind(const MemoryLocation& location, std::uint8_t kinds) {
  if ((kind_bit(location.kind) & kinds) != 0) return {};
  if (!location.on_host()) return not_for_device("a transport of host memory");
  return failure(ErrorCode::invalid_argument,
                 "a transport of device memory does not offer memory of the host");
}

}  // namespace

Result<std::uint64_t> checked_bytes(std::span<const SourceRegion> regions,
                                    const DirectLimits& limits, std::uint8_t kinds) {
  if (regions.size() > limits.max_regions) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("a transfer of {} regions; at most {} are allowed", regions.size(),
                               limits.max_regions));
  }
  std::uint64_t bytes = 0;
  for (const SourceRegion& region : regions) {
    if (auto good = check_kind(region.location, kinds); !good) return good.error();
    if (region.bytes.size() > limits.max_bytes - bytes) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("a transfer of more than {} bytes", limits.max_bytes));
    }
    bytes += region.bytes.size();
  }
  return bytes;
}

Result<void> check_target(std::size_t region, std::uint64_t offered, const TargetRegion& target,
                          std::uint8_t kinds) {
  if (auto good = check_kind(target.location, kinds); !good) return good;
  if (target.bytes.size() == offered) return {};
  return failure(ErrorCode::invalid_argument,
                 fmt::format("region {} has {} bytes at the holder, and {} at the receiver", region,
                             offered, target.bytes.size()));
}

Failure ended_by_owner() {
  return failure(ErrorCode::cancelled, "the transfer was ended by its owner");
}

Failure unknown_channel(const ChannelKey& key) {
  return failure(ErrorCode::not_found, fmt::format("no channel of epoch {} exists to process {}",
                                                   key.epoch, key.peer.brief()));
}

Failure not_for_device(const char* transport) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{} does not read or write the memory of devices", transport));
}

}  // namespace mobula::internal
