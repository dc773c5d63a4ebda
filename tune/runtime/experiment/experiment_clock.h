// The clock of one process of an experiment. Both times advance with the monotonic clock alone: a
// jump of the wall clock moves no deadline, ends no budget, and reverses no recorded times.
// Thread: any (values; sources that tests inject must allow it). Units: seconds, milliseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace mobula::internal::tune {

class ExperimentClock {
 public:
  struct Sources {
    std::function<std::chrono::nanoseconds()> monotonic;  // since any start
    std::function<std::int64_t()> wall_ms;                // since 1970
  };
  static Sources system_sources();

  // Reads the wall clock once. `offset_s`: seconds of earlier processes of the experiment.
  explicit ExperimentClock(double offset_s = 0, Sources sources = system_sources());

  // Time of the experiment without the time between its processes.
  double seconds() const;
  // Wall-clock time of the start of this process and the time since then.
  std::int64_t wall_ms() const;

 private:
  std::chrono::nanoseconds elapsed() const { return sources_.monotonic() - began_; }

  Sources sources_;
  double offset_s_;
  std::chrono::nanoseconds began_;
  std::int64_t began_ms_;
};

}  // namespace mobula::internal::tune
