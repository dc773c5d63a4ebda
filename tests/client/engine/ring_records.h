// Reads the records of a ring for tests.
// Thread: any.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/id.h"
#include "transport/ring/ring.h"

namespace mobula::internal::client {

// A function for RingLinks::Hearer::read_calls that passes each record to `take`.
inline std::function<bool(ProcessId, RingReader&)> read_each(
    std::function<void(ProcessId, std::span<const std::byte>)> take) {
  return [take = std::move(take)](ProcessId peer, RingReader& ring) {
    std::vector<std::byte> record;
    while (true) {
      const auto found = ring.read(record);
      if (!found || !*found) return found.ok();
      take(peer, record);
    }
  };
}

}  // namespace mobula::internal::client
