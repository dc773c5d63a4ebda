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
  // Added to fence_after before an exclusive actor restarts.
  Duration exclusive_margin = Duration(2s);
  Duration publish_after = Duration(10ms);  // deaths of processes are collected for this time
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
  std::optional<Duration> preempt_after{};
  // Shown by `status`.
  std::string address;
  std::string version;
  std::string http_url;
  std::string http_token_file;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("settings", &HeadOptions::settings), field("recovery", &HeadOptions::recovery),
        field("exclusive_margin", &HeadOptions::exclusive_margin),
        field("publish_after", &HeadOptions::publish_after),
        field("persist_again", &HeadOptions::persist_again),
        field("driver_absence", &HeadOptions::driver_absence),
        field("orphan_watch", &HeadOptions::orphan_watch),
        field("list_timeout", &HeadOptions::list_timeout),
        field("max_nodes", &HeadOptions::max_nodes), field("max_jobs", &HeadOptions::max_jobs),
        field("max_actors", &HeadOptions::max_actors),
        field("max_groups", &HeadOptions::max_groups),
        field("max_classes_per_lessee", &HeadOptions::max_classes_per_lessee),
        field("max_ended_kept", &HeadOptions::max_ended_kept),
        field("max_copies_per_node", &HeadOptions::max_copies_per_node),
        field("max_backlog", &HeadOptions::max_backlog),
        field("max_listed", &HeadOptions::max_listed),
        field("max_tasks_per_owner", &HeadOptions::max_tasks_per_owner),
        field("address", &HeadOptions::address), field("version", &HeadOptions::version),
        field("http_url", &HeadOptions::http_url),
        field("http_token_file", &HeadOptions::http_token_file),
        field("max_planner_bytes", &HeadOptions::max_planner_bytes),
        field("preempt_after", &HeadOptions::preempt_after),
        field("memory_restart_backoff_initial", &HeadOptions::memory_restart_backoff_initial),
        field("memory_restart_backoff_max", &HeadOptions::memory_restart_backoff_max),
        field("start_again_backoff_initial", &HeadOptions::start_again_backoff_initial),
        field("start_again_backoff_max", &HeadOptions::start_again_backoff_max),
        field("store_results_timeout", &HeadOptions::store_results_timeout),
        field("max_tokens", &HeadOptions::max_tokens),
        field("ticket_life", &HeadOptions::ticket_life),
        field("clock_skew", &HeadOptions::clock_skew),
        field("questions_at_once", &HeadOptions::questions_at_once),
        field("questions_per_second", &HeadOptions::questions_per_second),
        field("lasting_ticket_life", &HeadOptions::lasting_ticket_life));
  }
  friend bool operator==(const HeadOptions&, const HeadOptions&) = default;
};

}  // namespace mobula::internal::head
