// Limits of all tensor transports, and the checks of offers and targets.
// Thread: any (values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

struct DirectLimits {
  std::size_t max_regions = 4'096;       // per transfer
  std::uint64_t max_bytes = 1ull << 42;  // per transfer
  std::size_t max_offers = 16'384;       // at one time
  std::size_t max_pulls = 4'096;         // at one time, including maps
  std::size_t max_channels = 1'024;      // at one time, in each direction
  std::size_t max_ticket_bytes = 256u << 10;
};

// Returns the total size of the regions. Errors: invalid_argument for too many regions or bytes, or
// for another kind of memory.
Result<std::uint64_t> checked_bytes(std::span<const SourceRegion> regions,
                                    const DirectLimits& limits, std::uint8_t kinds = host_kinds);

// Errors: invalid_argument unless the target has a kind in `kinds` and exactly the offered size.
Result<void> check_target(std::size_t region, std::uint64_t offered, const TargetRegion& target,
                          std::uint8_t kinds = host_kinds);

// Failures that all transports report.
Failure ended_by_owner();
Failure unknown_channel(const ChannelKey& key);
Failure not_for_device(const char* transport);

}  // namespace mobula::internal
