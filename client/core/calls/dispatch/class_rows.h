// Rows of demand classes and of the slots that serve them.
// Thread: owner. Owner: Dispatcher.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/core/calls/dispatch/spread_turns.h"
#include "client/core/calls/task_row.h"

namespace mobula::internal::client {

struct SlotRow {
  ClassId demand_class;
  NodeId node;
  std::uint32_t generation = 0;
  ProcessId executor;  // empty: between generations
  bool recalled = false;
  bool holds_results = false;  // the executor holds tensor results of finished calls
  Time idle_since;
  bool used = false;  // this generation has taken a call
};

// Part of a class row that ClassClocks keeps.
struct ClassClock {
  std::uint64_t order = 0;       // number of the class in order of creation
  std::optional<Time> deadline;  // earliest work that is due without another event
  std::optional<Time> armed;     // see DeadlineHeap
  bool changed = false;          // `deadline` is computed at the end of the step
  bool waits = false;            // the class has queued tasks with rows
  bool has_slots = false;        // value of the last Reading, as in `unsettled`
  bool unsettled = false;
};

struct ClassRow {
  DemandClass spec;
  TaskQueue queue;   // tasks with rows; between steps empty only if `line` is
  BacklogLine line;  // tasks behind them
  std::vector<SlotId> slots;
  std::vector<SlotId> received;  // slots that no Demand has counted yet
  std::uint64_t version = 0;
  std::size_t tasks = 0;      // tasks of this class, lineage included
  std::int64_t reported = 0;  // slot count of the last demand sent to the head
  bool dirty = false;
  Time tell_after;
  std::size_t early_reports = 0;  // demands sent before `tell_after` since the last one after it
  Duration run_time{};            // moving average
  bool measured = false;
  bool fail_if_infeasible = false;
  bool warned = false;
  std::string waiting_reason;         // reported by the head while nothing fits
  std::optional<SpreadTurns> spread;  // strategy Spread, outside placement groups
  ClassClock clock;
  std::size_t waiting() const { return queue.size() + line.tasks; }
  // Time at which a changed demand may be sent.
  Time demand_due(Duration demand_report_interval) const {
    const bool grows = static_cast<std::int64_t>(waiting()) > reported;
    return spread && grows ? tell_after - demand_report_interval + SpreadTurns::demand_interval
                           : tell_after;
  }
};

// True if tasks with this request get numbered devices.
inline bool wants_devices(const Request& request) {
  const auto is_device = [](const auto& each) { return is_unit_instance(each.first); };
  return request.gpu_memory > 0 || std::ranges::any_of(request.resources.amounts(), is_device);
}

}  // namespace mobula::internal::client
