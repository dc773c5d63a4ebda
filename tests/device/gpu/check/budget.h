// Admission of stages by time: a stage may start only if its whole limit fits into the rest of the
// budget.
// Thread: owner. Units: seconds. Not: clocks; the caller passes the elapsed time.
#pragma once

#include <optional>
#include <string>

namespace mobula::internal::gpu_check {

class Budget {
 public:
  explicit Budget(double total_s) : total_s_(total_s) {}

  // The reason to skip a stage with this limit, or nothing if the stage fits. A stage that is ended
  // at its limit needs up to `cleanup_s` more for its processes.
  std::optional<std::string> skip_reason(double elapsed_s, double limit_s) const;

  static constexpr double cleanup_s = 5;

 private:
  double total_s_;
};

}  // namespace mobula::internal::gpu_check
