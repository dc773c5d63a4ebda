#include "tune/runtime/experiment/experiment_clock.h"

#include <utility>

#include "tune/runtime/experiment/experiment_log.h"

namespace mobula::internal::tune {

ExperimentClock::Sources ExperimentClock::system_sources() {
  return {.monotonic = [] { return std::chrono::steady_clock::now().time_since_epoch(); },
          .wall_ms = [] { return wall_clock_ms(); }};
}

ExperimentClock::ExperimentClock(double offset_s, Sources sources)
    : sources_(std::move(sources)),
      offset_s_(offset_s),
      began_(sources_.monotonic()),
      began_ms_(sources_.wall_ms()) {}

double ExperimentClock::seconds() const {
  return offset_s_ + std::chrono::duration<double>(elapsed()).count();
}

std::int64_t ExperimentClock::wall_ms() const {
  return began_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(elapsed()).count();
}

}  // namespace mobula::internal::tune
