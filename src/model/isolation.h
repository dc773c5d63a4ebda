// What stands between a process and more of a device's memory than its share, as the agent of the
// node observed it when it started: never what somebody configured. Where nothing prevents and nothing
// detects, a share is a promise only: the books keep shares apart, and nothing else does. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.h"

namespace mobula::internal {

// What makes an allocation beyond the share fail.
enum class Prevents : std::uint8_t {
  nothing = 0,
  runtime_allocator = 1,    // for allocations that the runtime serves
  framework_allocator = 2,  // for those of a framework that was told its part
  driver_calls = 3,         // intercepted
  driver_mps = 4,
  mig = 5,                  // the device is a slice, and the share is all of it
};

// Where more than the share is noticed.
enum class Detects : std::uint8_t { none = 0, device_total = 1, per_process = 2 };

// What happens then, at the most.
enum class Reacts : std::uint8_t { none = 0, log = 1, error = 2, kill = 3 };

struct Isolation {
  Prevents prevents = Prevents::nothing;
  Detects detects = Detects::none;
  std::int32_t detect_period_ms = 0;  // 0: nothing is looked at
  Reacts reacts = Reacts::none;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("prevents", &Isolation::prevents), field("detects", &Isolation::detects),
                 field("detect_period_ms", &Isolation::detect_period_ms),
                 field("reacts", &Isolation::reacts));
  }
  friend bool operator==(const Isolation&, const Isolation&) = default;

  bool promise_only() const { return prevents == Prevents::nothing && detects == Detects::none; }
};

// As people and JSON read them: "intercepted driver calls", "per process", "log". "unknown" for what a
// newer version made up.
std::string_view to_string(Prevents prevents);
std::string_view to_string(Detects detects);
std::string_view to_string(Reacts reacts);
// "promise only", or "MIG", or "driver MPS; per process every 1000 ms: log".
std::string to_string(const Isolation& isolation);

}  // namespace mobula::internal
