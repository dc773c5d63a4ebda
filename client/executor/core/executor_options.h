// Options of the executor core. The field list lets a recording hold them.
// Thread: owner (plain values).
#pragma once

#include <cstddef>

#include "base/fields.h"
#include "base/time.h"

namespace mobula::internal::executor {

struct ExecutorOptions {
  Duration leave_timeout = 1s;  // callers have this long to acknowledge before a planned exit
  Duration orphans_bound =
      1s;  // what callers that died were given stays held for so long, for those they gave it
  Duration evacuation_timeout = 30s;   // and what others refer to, to be elsewhere
  std::size_t max_queue = 100'000;     // calls waiting here; more are handed back
  Duration tell_started_after = 50ms;  // callers are told of calls that run so long
  Duration tell_residence_after = 1s;  // the agent is told of fewer results so seldom
  Duration release_delay =
      200ms;  // a process that awaits submitted calls keeps the resources of its slot until then
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("leave_timeout", &ExecutorOptions::leave_timeout),
                 field("orphans_bound", &ExecutorOptions::orphans_bound),
                 field("evacuation_timeout", &ExecutorOptions::evacuation_timeout),
                 field("max_queue", &ExecutorOptions::max_queue),
                 field("tell_started_after", &ExecutorOptions::tell_started_after),
                 field("tell_residence_after", &ExecutorOptions::tell_residence_after),
                 field("release_delay", &ExecutorOptions::release_delay));
  }
  friend bool operator==(const ExecutorOptions&, const ExecutorOptions&) = default;
};

}  // namespace mobula::internal::executor
