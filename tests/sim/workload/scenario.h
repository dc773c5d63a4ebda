// Scenarios (cluster size, work, faults) and the history that one seed draws from a scenario.
// Everything independent of the course of a history is drawn before it starts, so that a failure
// can be shrunk by removing single items and faults.
// Thread: any. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/model/jobs/job_terms.h"
#include "base/model/node_shape.h"
#include "base/model/request.h"
#include "base/random.h"
#include "sim/workload/plan.h"

namespace mobula::internal::sim {

enum class FaultKind : std::uint8_t {
  head_crash,
  head_pause,
  agent_crash,
  agent_pause,
  executor_crash,
  executor_pause,
  driver_pause,
  driver_crash,
  head_link_break,
  head_link_cut,
  peer_cut,
  stream_break,
  slow_network,
  repeats,
  disk_slow,
  disk_fails,
  fork_fails,
  slab_fails,
  bulk_fails,
  news_lost,
  node_drained,
  spill_slow,
  spill_fails,
  spill_corrupts,
  bulk_slow,
  bulk_breaks,
  bulk_corrupts,
  peer_lost,
  home_crash,
  node_away,
  starved,
  head_and_agent_crash,
};
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::head_crash;
  Time at;
  Duration span{};
  std::uint64_t target = 0;  // index modulo the number of targets
};

// Work of one driver: a thread that runs plan `plan`.
struct Item {
  int driver = 0;
  Time at;
  int plan = 0;
};

enum class Work : std::uint8_t {
  task,
  chain,
  crash,
  raise,
  gpu,
  gpu_child,
  nested,
  large,
  put_ref,
  return_ref,
  wait,
  cancel,
  actor,
  restart,
  keep,
  handle,
  named,
  infeasible,
  late,
  keep_late,
  part,
  part_actor,
  hang,
  group,
  stream,
  whole,
  labelled,
  lengthy,
  once,
  whole_group,
  burst,
  family,
  whole_gpu,
  resident,
  hungry,
  too_hungry,
  frugal_once,
  hoard,
  broadcast,
  pass_tensors,
  lose_tensors,
  lose_calls,
  unawaited,
  return_call,
  factory,
  waves,
  streams_of_readers,
  shared_name,
  killed_call,
  blocked,
  deep_chain,
  pair_group,
  device_group,
  leaving_name,
  spread_burst,
  orphaned_read,
  deferred_calls,
  generator,
  calls_in_groups,
  restarts_in_groups,
  shared_generator,
  long_queue,
  group_actors,
};

struct Scenario {
  std::string name;
  int max_nodes = 1;
  int max_drivers = 1;
  bool gpus = false;
  int items = 1;
  std::vector<Work> works{};
  int faults = 0;
  std::vector<FaultKind> kinds{};
  bool terms = false;  // jobs differ in priority, weight, and quota
  bool preempts = false;
  bool memory = false;            // memory of nodes is limited and sampled
  std::uint64_t store_bytes = 0;  // store size per node; 0: no limit
  bool keeps_quotas = false;      // jobs stay within quotas despite preemption
  bool tensors = false;           // results contain tensors
  bool uniform = false;           // exactly `max_nodes` nodes with one CPU each
  bool subscribes = false;        // threads also subscribe to the objects that they await
};
const std::vector<Scenario>& scenarios();
// Returns null if no scenario has this name.
const Scenario* find_scenario(const std::string& name);

struct NodePlan {
  NodeShape shape;
  bool has_program = false;     // from the start
  bool cannot_start = false;    // no program can start here
  std::int64_t memory_mib = 0;  // 0: no limit
};

struct HistoryPlan {
  std::vector<NodePlan> nodes;
  std::vector<int> driver_nodes;  // node of each driver
  std::vector<JobTerms> terms;    // terms of each driver's job
  std::optional<Duration> preempt_delay;
  std::uint64_t store_bytes = 0;
  bool uniform = false;  // one CPU on each node
  bool subscribes = false;
  bool trusted_fabric = false;
  Plans plans;
  std::vector<Item> items;
  std::vector<Fault> faults;
  Time heal;  // no faults after this time
};
HistoryPlan draw(const Scenario& scenario, const Random& random);

// Adds the plans of one item and returns the id of the item's own plan. In workload.cc.
int draw_item(Work work, Random& random, Plans& plans);

// Name prefix of functions whose tasks must not be starved by smaller ones.
inline constexpr const char* whole_name = "whole";
// Name prefix of functions that take many seconds and may run again.
inline constexpr const char* lengthy_name = "lengthy";
// Name prefix of functions that take many seconds and may not run again.
inline constexpr const char* once_name = "once";

// Name prefix of functions that wait until they are cancelled.
inline constexpr const char* blocked_name = "blocked";

// Returns the request that a shape name stands for.
Request request_of(const std::string& shape);

// Items and faults to leave out of a history.
struct Mask {
  std::set<int> items;
  std::set<int> faults;
};

}  // namespace mobula::internal::sim
