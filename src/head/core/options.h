// Settings of the head's core. Plain values; a recording keeps them beside its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "protocol/agent_control.h"

namespace mobula::internal::head {

struct HeadOptions {
  ClusterSettings settings;
  Duration recovery = Duration(30s);         // above the agents' back-off cap
  Duration exclusive_margin = Duration(2s);  // on top of fence_after, before such an actor restarts
  Duration publish_after = Duration(10ms);   // deaths of processes are gathered so long
  Duration persist_again = Duration(1s);     // a failed write of what nobody waits for is repeated
  Duration driver_absence = Duration(120s);  // a driver may attach again when its node has died or was cut off
  Duration orphan_watch = Duration(10s);     // a watcher may come before its actor by so much
  Duration list_within = Duration(2s);       // for agents and owners to say what they have
  Duration store_results_within = Duration(40s);  // for an executor that ends and holds results
  Duration start_again_after = Duration(100ms);  // of an actor that could not be started twice, doubled
  Duration start_again_cap = Duration(5s);       // each time in a row up to this
  Duration memory_restart_after = Duration(500ms);  // of an actor that was ended for lack of memory,
  Duration memory_restart_cap = Duration(60s);      // doubled each time up to this
  // Bounds. At each the newcomer is refused with a text that names the bound, except where noted.
  std::uint64_t max_nodes = 4096;
  std::uint64_t max_jobs = 10'000;
  std::uint64_t max_actors = 100'000;
  std::uint64_t max_groups = 100'000;
  std::uint64_t max_classes_per_lessee = 4096;
  std::uint64_t max_tokens = 10'000;
  std::uint64_t max_ended_kept = 1000;  // of jobs, actors, nodes and tokens each; the oldest are forgotten
  std::uint64_t max_copies_per_node = 1'000'000;  // further ones are not found if their home dies
  std::uint64_t max_backlog = 100'000;  // messages for one agent; beyond it the node is dead
  std::uint64_t max_listed = 10'000;    // items of one answer; a warning says how many are left out
  std::uint64_t max_tasks_per_owner = 1000;  // of one answer; it says how many are left out
  std::uint64_t max_planner_bytes = std::uint64_t{15} << 20;  // of the planner's state, as a whole
  // Tickets of agents are in force for ticket_life, and renewed when a third of it has passed.
  Duration ticket_life = std::chrono::hours(24);
  Duration lasting_ticket_life = std::chrono::hours(24 * 365);  // of agents that cannot be told of another one
  Duration clock_skew = std::chrono::minutes(5);  // that tokens' ends allow for
  // Questions of one key (protocol/roles.h): so many at once, so many a second; 0: without a bound.
  std::uint64_t questions_at_once = 2000;
  std::uint64_t questions_per_second = 200;
  // What waits so long has retryable tasks of jobs of a lower priority ended; nothing: never.
  std::optional<Duration> preempt_after{};
  // For `status` only.
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
        field("list_within", &HeadOptions::list_within),
        field("max_nodes", &HeadOptions::max_nodes), field("max_jobs", &HeadOptions::max_jobs),
        field("max_actors", &HeadOptions::max_actors),
        field("max_groups", &HeadOptions::max_groups),
        field("max_classes_per_lessee", &HeadOptions::max_classes_per_lessee),
        field("max_ended_kept", &HeadOptions::max_ended_kept),
        field("max_copies_per_node", &HeadOptions::max_copies_per_node),
        field("max_backlog", &HeadOptions::max_backlog),
        field("max_listed", &HeadOptions::max_listed),
        field("max_tasks_per_owner", &HeadOptions::max_tasks_per_owner), field("address", &HeadOptions::address),
        field("version", &HeadOptions::version), field("http_url", &HeadOptions::http_url),
        field("http_token_file", &HeadOptions::http_token_file),
        field("max_planner_bytes", &HeadOptions::max_planner_bytes),
        field("preempt_after", &HeadOptions::preempt_after),
        field("memory_restart_after", &HeadOptions::memory_restart_after),
        field("memory_restart_cap", &HeadOptions::memory_restart_cap),
        field("start_again_after", &HeadOptions::start_again_after),
        field("start_again_cap", &HeadOptions::start_again_cap),
        field("store_results_within", &HeadOptions::store_results_within),
        field("max_tokens", &HeadOptions::max_tokens),
        field("ticket_life", &HeadOptions::ticket_life), field("clock_skew", &HeadOptions::clock_skew),
        field("questions_at_once", &HeadOptions::questions_at_once),
        field("questions_per_second", &HeadOptions::questions_per_second));
  }
  friend bool operator==(const HeadOptions&, const HeadOptions&) = default;
};

}  // namespace mobula::internal::head
