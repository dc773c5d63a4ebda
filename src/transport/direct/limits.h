// What every transport of host memory refuses to take, and the checks of what it is asked to. Values
// and functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

struct DirectLimits {
  std::size_t max_regions = 4'096;       // of one transfer
  std::uint64_t max_bytes = 1ull << 42;  // of one transfer
  std::size_t max_offers = 16'384;       // at once
  std::size_t max_pulls = 4'096;         // at once, with maps
  std::size_t max_channels = 1'024;      // at once, in each direction
  std::size_t max_endpoint_bytes = 4'096;
  std::size_t max_ticket_bytes = 256u << 10;
};

// The regions' bytes together; invalid_argument for too many, too long, or memory of another kind.
Result<std::uint64_t> checked_bytes(std::span<const SourceRegion> regions,
                                    const DirectLimits& limits, std::uint8_t kinds = host_kinds);

// invalid_argument unless the target is memory of these kinds, of exactly the size that is offered.
Result<void> check_target(std::size_t region, std::uint64_t offered, const TargetRegion& target,
                          std::uint8_t kinds = host_kinds);

// The refusals that all of them have.
Failure ended_by_owner();
Failure unknown_channel(const ChannelKey& key);
Failure not_for_device(const char* transport);

}  // namespace mobula::internal
