// What a client core is set up with. Plain values with a field list, for recordings.
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
  Duration idle_return = 100ms;   // an idle slot goes back after this
  Duration tell_interval = 20ms;  // between changes of one class's demand that are no edges
  Duration steal_after = 20ms;   // calls that have waited so long behind another are taken back
  Duration drain_bound = 500ms;  // a dead executor's stream is believed empty after this at latest
  Duration pipeline_work = 1ms;  // queued work that may wait at one executor
  std::size_t max_pipeline = 64;
  Duration memory_retry_after = 500ms;  // after an end for lack of memory, doubled each time up to
  Duration memory_retry_cap = 60s;
  std::int64_t max_lineage_bytes = std::int64_t{1} << 30;  // of finished tasks that can be run again
  std::size_t near_tasks = 2048;  // queued tasks of a class that are kept whole; those behind are kept small
  // Refs on tensors in replies of actors: held, and exported, when they are still there after so long. Less
  // than homes wait for an object's export.
  Duration hold_after = 5ms;
  Duration export_after = 20ms;
  Duration no_room_retry = 20ms;  // an actor had no room for a single call: looked at again so often
  Duration unreachable_after = 60s;  // without a connection to an executor that owes replies: its slot is given up
  Duration orphans_after = 1s;  // refs lent to an executor that has died stay held for so long
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ClientOptions::process), field("job", &ClientOptions::job),
                 field("name_space", &ClientOptions::name_space),
                 field("idle_return", &ClientOptions::idle_return),
                 field("tell_interval", &ClientOptions::tell_interval),
                 field("steal_after", &ClientOptions::steal_after),
                 field("drain_bound", &ClientOptions::drain_bound),
                 field("pipeline_work", &ClientOptions::pipeline_work),
                 field("max_pipeline", &ClientOptions::max_pipeline),
                 field("memory_retry_after", &ClientOptions::memory_retry_after),
                 field("memory_retry_cap", &ClientOptions::memory_retry_cap),
                 field("max_lineage_bytes", &ClientOptions::max_lineage_bytes),
                 field("near_tasks", &ClientOptions::near_tasks), field("hold_after", &ClientOptions::hold_after),
                 field("export_after", &ClientOptions::export_after),
                 field("no_room_retry", &ClientOptions::no_room_retry),
                 field("orphans_after", &ClientOptions::orphans_after),
                 field("unreachable_after", &ClientOptions::unreachable_after));
  }
  friend bool operator==(const ClientOptions&, const ClientOptions&) = default;
};

}  // namespace mobula::internal::client
