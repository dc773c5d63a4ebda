#include "device/gpu/gpu_share.h"

#include <fmt/format.h>

namespace mobula::internal {

Result<std::uint64_t> tensor_bytes_of(const GpuShareTerms& terms) {
  constexpr auto per_one = static_cast<std::uint64_t>(Quantity::units_per_one);
  if (terms.fraction <= Quantity() || terms.fraction > Quantity::whole(1)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("a share of a GPU is more than 0 and at most 1; given: {}",
                               terms.fraction.to_string()));
  }
  const auto units = static_cast<std::uint64_t>(terms.fraction.units());
  // The whole part first, so that no product overflows.
  const std::uint64_t share =
      terms.usable_bytes / per_one * units + terms.usable_bytes % per_one * units / per_one;
  const std::uint64_t taken = terms.context_bytes + terms.communicator_bytes;
  if (taken <= share && share - taken >= least_tensor_bytes) return share - taken;
  return failure(
      ErrorCode::invalid_argument,
      fmt::format(
          "{} of a GPU is {} of {} usable bytes; its context takes {} and {} are reserved for "
          "communicators, so less than {} would be left for tensors: request more",
          terms.fraction.to_string(), share, terms.usable_bytes, terms.context_bytes,
          terms.communicator_bytes, least_tensor_bytes));
}

}  // namespace mobula::internal
