// Options of a client core. Plain values with a field list, for recordings.
// Thread: any (values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::client {

struct ClientOptions {
  ProcessId process;
  JobId job;
  std::string name_space;
  Duration idle_return = 100ms;  // time until an idle slot is returned
  Duration demand_report_interval =
      20ms;                         // minimum interval of demand reports, except from or to zero
  Duration rebalance_delay = 20ms;  // wait behind another call after which calls are reclaimed
  Duration stream_drain_timeout = 500ms;  // longest wait for the remaining data of a dead executor
  Duration pipeline_work = 1ms;           // longest queued work at one executor
  std::size_t max_pipeline = 64;
  Duration memory_retry_backoff_initial =
      500ms;  // backoff after an out-of-memory termination, doubled up to
  Duration memory_retry_backoff_max = 60s;
  // bytes of finished tasks that can run again
  std::int64_t max_lineage_bytes = std::int64_t{1} << 30;
  std::size_t near_tasks = 2048;  // queued tasks per class that have rows; later ones are compact
  // Tensor refs in replies of actors are held, and exported, if they still exist after these
  // delays. Both are shorter than the time that homes wait for the export of an object.
  Duration hold_delay = 5ms;
  Duration export_delay = 20ms;
  Duration queue_full_backoff = 20ms;  // pause after an actor rejected a single call
  Duration unreachable_timeout = 60s;  // limit for a broken connection while replies are due
  Duration orphans_delay = 1s;         // time for which refs borrowed by a dead executor stay held
  MOBULA_FIELDS(process, job, name_space, idle_return, demand_report_interval, rebalance_delay,
                stream_drain_timeout, pipeline_work, max_pipeline, memory_retry_backoff_initial,
                memory_retry_backoff_max, max_lineage_bytes, near_tasks, hold_delay, export_delay,
                queue_full_backoff, orphans_delay, unreachable_timeout);
  friend bool operator==(const ClientOptions&, const ClientOptions&) = default;
};

}  // namespace mobula::internal::client
