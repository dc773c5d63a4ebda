// Whose turn it is on each device of this process: of what two processes do together, one thing at a time
// goes on per device, in the order in which turns were asked for. Who holds a turn here may wait for one
// in a process with a higher id, never the other way round: so no circle of waiting can form. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace mobula::internal::transfer {

class Turns {
 public:
  using Taker = std::uint64_t;

  // True if it has its turn at once; else it is in line.
  bool ask(std::uint32_t lane, Taker taker);
  // Gives its turn back, or leaves the line. Returns who has a turn now for that.
  std::optional<Taker> leave(std::uint32_t lane, Taker taker);
  bool has(std::uint32_t lane, Taker taker) const;
  std::size_t in_line() const;

 private:
  std::map<std::uint32_t, std::deque<Taker>> lines_;  // the first of each has its turn
};

}  // namespace mobula::internal::transfer
