#include "device/gpu/check/budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal::gpu_check {

std::optional<std::string> Budget::skip_reason(double elapsed_s, double limit_s) const {
  const double left = std::max(0.0, total_s_ - elapsed_s);
  if (limit_s + cleanup_s <= left) return std::nullopt;
  return fmt::format("no time: needs {:.0f} s, {:.0f} s left", limit_s + cleanup_s, left);
}

}  // namespace mobula::internal::gpu_check
