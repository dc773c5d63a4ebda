// Reports connections that the bus closed because a peer exceeded its limits, on stderr.
// Thread: owner (the loop).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal::client {

class ClosedConnections {
 public:
  // Prints at most one line per minute, because a peer can cause any number of them.
  void report(const std::string& source, const std::string& why, Time now);

 private:
  std::uint64_t unreported_ = 0;
  std::optional<Time> reported_at_;
};

}  // namespace mobula::internal::client
