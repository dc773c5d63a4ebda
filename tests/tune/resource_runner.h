// Compares the distribution of processors with calls of Ray Tune's allocation functions:
// tests/tune/oracle/resources_oracle.py.
// Thread: owner.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace mobula::internal::tune {

class ResourceRunner {
 public:
  // A distribution has no state, so the interval of snapshots does not count.
  explicit ResourceRunner(std::int64_t /*snapshot_interval*/ = 0) {}

  void run(std::istream& trace);
  std::int64_t compared() const { return compared_; }
  std::int64_t decisions() const { return compared_; }
  std::int64_t difference_count() const { return difference_count_; }
  // The first ten differences.
  const std::vector<std::string>& differences() const { return differences_; }

 private:
  std::int64_t compared_ = 0, difference_count_ = 0;
  std::vector<std::string> differences_;
};

}  // namespace mobula::internal::tune
