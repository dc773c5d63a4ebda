// Decides when a loss of log lines is reported: at first, and when the sum has doubled. A writer
// that is faster than its reader would otherwise cause a line for each chunk.
// Thread: owner. Units: bytes.
#pragma once

#include <cstdint>
#include <optional>

namespace mobula::internal::cli {

class LossReport {
 public:
  // Returns the sum of all losses if it must be reported now. `bytes` is 1 if it is unknown.
  std::optional<std::uint64_t> add(std::uint64_t bytes) {
    sum_ += bytes;
    if (bytes == 0 || sum_ < next_) return std::nullopt;
    next_ = 2 * sum_;
    return sum_;
  }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t next_ = 1;
};

}  // namespace mobula::internal::cli
