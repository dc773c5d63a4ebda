// Turns of the devices of this process: one two-sided step per device at a time, in request order.
// A holder of a turn may wait for a turn in a process with a higher id, never the reverse, so no
// deadlock is possible.
// Thread: owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace mobula::internal::transfer {

class Turns {
 public:
  using Taker = std::uint64_t;

  // Returns true if the turn is granted immediately; otherwise the taker is queued.
  bool request(std::uint32_t device_ordinal, Taker taker);
  // Releases the turn or leaves the queue. Returns the taker that has the turn as a result.
  std::optional<Taker> leave(std::uint32_t device_ordinal, Taker taker);
  bool has(std::uint32_t device_ordinal, Taker taker) const;
  std::size_t in_line() const;

 private:
  std::map<std::uint32_t, std::deque<Taker>> lines_;  // the first entry has the turn
};

}  // namespace mobula::internal::transfer
