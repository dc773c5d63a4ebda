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
  // The rounding of NumPy, and that of Syne Tune's rungs for ascending and descending values. Their
  // last bits decide whether a value at the percentile is above it.
  enum class Rounding : unsigned char { numpy, ascending, descending };

  // `fraction` is in [0, 1]. The percentile of n values is between the values of rank
  // floor((n - 1) * fraction) and the next one.
  explicit RunningPercentile(double fraction = 0.5, Rounding rounding = Rounding::numpy)
      : fraction_(fraction), rounding_(rounding) {}

  void add(double value);
  // Absent without values.
  std::optional<double> value() const;
  std::size_t size() const { return lower_.size() + upper_.size(); }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.fraction_, self.rounding_, self.lower_, self.upper_);
  }

 private:
  // The rank counted from 1.
  double position() const;

  double fraction_;
  Rounding rounding_;
  std::vector<double> lower_;  // max-heap of the floor(place()) smallest values
  std::vector<double> upper_;  // min-heap of the others
};

}  // namespace mobula::internal::tune
