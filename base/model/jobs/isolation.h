// How a node enforces the share of device memory that a process requested: the mechanism that
// prevents excess use, the one that detects it, and the reaction. The agent observes them at its
// start; a configured but missing mechanism does not count. A share without both is only accounted.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.h"

namespace mobula::internal {

// The mechanism that makes an allocation above the share fail.
enum class Prevents : std::uint8_t {
  nothing = 0,
  runtime_allocator = 1,    // the arena of Mobula, for its own allocations only
  framework_allocator = 2,  // a framework such as JAX that is started with a fraction of the memory
  driver_calls = 3,         // a preloaded library that intercepts calls of the CUDA driver
  driver_mps = 4,           // the memory limit of NVIDIA MPS
  mig = 5,                  // the device is a slice, and the share is the whole slice
};

// The mechanism that detects use above the share.
enum class Detects : std::uint8_t { none = 0, device_total = 1, per_process = 2 };

// The strongest reaction to detected use.
enum class Reacts : std::uint8_t { none = 0, log = 1, error = 2, kill = 3 };

struct Isolation {
  Prevents prevents = Prevents::nothing;
  Detects detects = Detects::none;
  std::int32_t detect_period_ms = 0;  // sampling interval; 0: no sampling
  Reacts reacts = Reacts::none;
  MOBULA_FIELDS(prevents, detects, detect_period_ms, reacts);
  friend bool operator==(const Isolation&, const Isolation&) = default;

  bool promise_only() const { return prevents == Prevents::nothing && detects == Detects::none; }
};

// Values for output and JSON: "intercepted driver calls", "per process", "log". "unknown" for
// values of a newer version.
std::string_view to_string(Prevents prevents);
std::string_view to_string(Detects detects);
std::string_view to_string(Reacts reacts);
// "promise only", or "MIG", or "driver MPS; per process every 1000 ms: log".
std::string to_string(const Isolation& isolation);

}  // namespace mobula::internal
