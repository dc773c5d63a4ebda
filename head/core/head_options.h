// Options of the head's core. Plain values, which a recording stores with its inputs.
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "protocol/messages/agent_control.h"

namespace mobula::internal::head {

struct HeadOptions {
  ClusterSettings settings;
  // Wait for known nodes after a restart. Must exceed the agents' maximum backoff.
  Duration recovery = Duration(30s);
  // Added to fence_timeout before an exclusive actor restarts.
  Duration exclusive_margin = Duration(2s);
  Duration publish_delay = Duration(10ms);  // deaths of processes are collected for this time
  Duration persist_again = Duration(1s);    // retry of a failed write that no reply waits for
  // Time for a driver to attach again after its node died or was cut off.
  Duration driver_absence = Duration(120s);
  Duration orphan_watch = Duration(10s);  // a watcher may precede its actor by this time
  Duration list_timeout = Duration(2s);   // for replies of agents and owners to a query
  Duration store_results_timeout =
      Duration(40s);  // for an executor that must end and holds results
  // Backoff of an actor after its second failed start in a row. It doubles with each further one,
  // up to start_again_backoff_max.
  Duration start_again_backoff_initial = Duration(100ms);
  Duration start_again_backoff_max = Duration(5s);  // maximum backoff
  // Backoff of an actor that was terminated for lack of memory. It doubles each time, up to
  // memory_restart_backoff_max.
  Duration memory_restart_backoff_initial = Duration(500ms);
  Duration memory_restart_backoff_max = Duration(60s);  // maximum backoff
  // Limits. A request above a limit is rejected with a text that names the limit, except as noted.
  std::uint64_t max_nodes = 4096;
  std::uint64_t max_jobs = 10'000;
  std::uint64_t max_actors = 100'000;
  std::uint64_t max_groups = 100'000;
  std::uint64_t max_classes_per_lessee = 4096;
  std::uint64_t max_tokens = 10'000;
  // Limit for ended jobs, actors, nodes, and tokens each. The oldest are removed.
  std::uint64_t max_ended_kept = 1000;
  // Further replicas of a node are not found after the death of their home.
  std::uint64_t max_copies_per_node = 1'000'000;
  std::uint64_t max_backlog = 100'000;  // messages for one agent; above it the node is dead
  std::uint64_t max_listed = 10'000;    // items per reply; a warning states how many are left out
  std::uint64_t max_tasks_per_owner = 1000;  // per reply, which states how many are left out
  std::uint64_t max_planner_bytes = std::uint64_t{15} << 20;  // size of the whole planner state
  // Tickets of agents are valid for ticket_life and renewed after a third of it.
  Duration ticket_life = std::chrono::hours(24);
  // Life of tickets for agents whose protocol has no renewal.
  Duration lasting_ticket_life = std::chrono::hours(24 * 365);
  Duration clock_skew = std::chrono::minutes(5);  // tolerance for the expiry of tokens
  // Rate limit of queries per key (protocol/roles.h): burst, and queries per second. 0: no limit.
  std::uint64_t questions_at_once = 2000;
  std::uint64_t questions_per_second = 200;
  // Waiting time after which a request preempts retryable tasks of jobs with a lower priority.
  // None: never.
  std::optional<Duration> preempt_delay{};
  // Shown by `status`.
  std::string address;
  std::string version;
  std::string http_url;
  std::string http_token_file;
  MOBULA_FIELDS(settings, recovery, exclusive_margin, publish_delay, persist_again, driver_absence,
                orphan_watch, list_timeout, max_nodes, max_jobs, max_actors, max_groups,
                max_classes_per_lessee, max_ended_kept, max_copies_per_node, max_backlog,
                max_listed, max_tasks_per_owner, address, version, http_url, http_token_file,
                max_planner_bytes, preempt_delay, memory_restart_backoff_initial,
                memory_restart_backoff_max, start_again_backoff_initial, start_again_backoff_max,
                store_results_timeout, max_tokens, ticket_life, clock_skew, questions_at_once,
                questions_per_second, lasting_ticket_life);
  friend bool operator==(const HeadOptions&, const HeadOptions&) = default;
};

}  // namespace mobula::internal::head
