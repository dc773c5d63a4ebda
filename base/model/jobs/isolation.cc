#include "base/model/jobs/isolation.h"

#include <fmt/format.h>

namespace mobula::internal {

std::string_view to_string(Prevents prevents) {
  switch (prevents) {
    case Prevents::nothing: return "nothing";
    case Prevents::runtime_allocator: return "runtime allocator";
    case Prevents::framework_allocator: return "framework allocator";
    case Prevents::driver_calls: return "intercepted driver calls";
    case Prevents::driver_mps: return "driver MPS";
    case Prevents::mig: return "MIG";
  }
  return "unknown";
}

std::string_view to_string(Detects detects) {
  switch (detects) {
    case Detects::none: return "none";
    case Detects::device_total: return "device total";
    case Detects::per_process: return "per process";
  }
  return "unknown";
}

std::string_view to_string(Reacts reacts) {
  switch (reacts) {
    case Reacts::none: return "none";
    case Reacts::log: return "log";
    case Reacts::error: return "error";
    case Reacts::kill: return "kill";
  }
  return "unknown";
}

std::string to_string(const Isolation& isolation) {
  if (isolation.promise_only()) return "promise only";
  std::string text;
  if (isolation.prevents != Prevents::nothing) text = to_string(isolation.prevents);
  if (isolation.detects == Detects::none) return text;
  return fmt::format("{}{}{} every {} ms: {}", text, text.empty() ? "" : "; ",
                     to_string(isolation.detects), isolation.detect_period_ms,
                     to_string(isolation.reacts));
}

}  // namespace mobula::internal
