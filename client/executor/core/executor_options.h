// Options of the executor core. The field list lets a recording hold them.
// Thread: owner (plain values).
#pragma once

#include <cstddef>

#include "base/fields.h"
#include "base/time.h"

namespace mobula::internal::executor {

struct ExecutorOptions {
  Duration leave_timeout = 1s;           // longest wait for acknowledgements before a planned exit
  Duration orphans_delay = 1s;           // time for which refs given to dead callers stay pinned
  Duration evacuation_timeout = 30s;     // longest wait for the evacuation of results
  std::size_t max_queue = 100'000;       // limit of queued calls; further calls are returned
  Duration started_report_delay = 50ms;  // run time after which the caller is notified
  Duration residence_report_interval = 1s;  // minimum interval between reports of fewer results
  Duration release_delay =
      200ms;  // a process that awaits submitted calls keeps the resources of its slot until then
  // Longest wait for the destructor of an actor. At the end of a job the agent waits less.
  Duration destructor_timeout = 30s;
  // After exit_actor: longest wait until the head has taken the name from the actor, and the
  // interval between requests.
  Duration name_release_timeout = 10s;
  Duration name_release_interval = 1s;
  // After exit_actor: longest wait for the other running calls, which are then cancelled, and for
  // their end after that.
  Duration exit_grace = 30s;
  Duration cancelled_grace = 500ms;
  MOBULA_FIELDS(leave_timeout, orphans_delay, evacuation_timeout, max_queue, started_report_delay,
                residence_report_interval, release_delay, name_release_timeout,
                name_release_interval, destructor_timeout, exit_grace, cancelled_grace);
  friend bool operator==(const ExecutorOptions&, const ExecutorOptions&) = default;
};

}  // namespace mobula::internal::executor
