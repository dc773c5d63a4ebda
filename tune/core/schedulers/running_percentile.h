// A percentile of a growing set of values, with NumPy's linear interpolation. NaN is ignored.
// An addition takes O(log n) time, and the percentile O(1).
// Thread: owner.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace mobula::internal::tune {

class RunningPercentile {
 public:
  // `fraction` is in [0, 1]. The percentile of n values is between the values of rank
  // floor((n - 1) * fraction) and the next one.
  explicit RunningPercentile(double fraction = 0.5) : fraction_(fraction) {}

  void add(double value);
  // Absent without values.
  std::optional<double> value() const;
  std::size_t size() const { return lower_.size() + upper_.size(); }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.fraction_, self.lower_, self.upper_);
  }

 private:
  double rank() const { return static_cast<double>(size() - 1) * fraction_; }

  double fraction_;
  std::vector<double> lower_;  // max-heap of the floor(rank()) + 1 smallest values
  std::vector<double> upper_;  // min-heap of the others
};

}  // namespace mobula::internal::tune
