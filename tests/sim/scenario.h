// Scenarios: how large a cluster, what work, which faults; and the history that one seed makes of it.
// Everything about a history that does not depend on its course is drawn here, before it starts, so
// that items and faults can be left out one by one when a failure is made smaller. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/job_terms.h"
#include "model/node_shape.h"
#include "model/request.h"
#include "sim/plan.h"

namespace mobula::internal::sim {

enum class FaultKind : std::uint8_t {
  head_crash, head_pause, agent_crash, agent_pause, executor_crash, executor_pause, driver_pause,
  driver_crash, head_link_break, head_link_cut, peer_cut, stream_break, slow_network, repeats, disk_slow,
  disk_fails, fork_fails, slab_fails, bulk_fails, news_lost, node_drained, spill_slow, spill_fails,
  spill_corrupts, bulk_slow, bulk_breaks, bulk_corrupts, peer_lost, home_crash, node_away,
};
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::head_crash;
  Time at;
  Duration span{};
  std::uint64_t target = 0;  // taken modulo what there is
};

// Work of one driver: a thread of it that runs plan `plan`.
struct Item {
  int driver = 0;
  Time at;
  int plan = 0;
};

enum class Work : std::uint8_t {
  task, chain, crash, raise, gpu, gpu_child, nested, large, put_ref, return_ref, wait, cancel,
  actor, restart, keep, handle, named, infeasible, late, keep_late, part, part_actor, hang, group,
  stream, whole, labelled, lengthy, once, whole_group, burst,
  family, whole_gpu, resident, hungry, too_hungry, frugal_once, hoard, broadcast,
  pass_tensors, lose_tensors, lose_calls, unawaited, return_call, factory, waves, streams_of_readers,
  shared_name, killed_call, blocked, deep_chain, pair_group, device_group,
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
  bool terms = false;  // jobs differ in priority, weight and quota
  bool preempts = false;
  bool memory = false;  // of nodes is limited, and looked at
  std::uint64_t store_bytes = 0;  // of each node's store; 0: as much as anybody could want
  bool keeps_quotas = false;      // of jobs, though others' tasks are ended for them
  bool tensors = false;  // results have some
  bool uniform = false;  // all `max_nodes` are there, with one CPU each
};
const std::vector<Scenario>& scenarios();
// Null if there is none of this name.
const Scenario* find_scenario(const std::string& name);

struct NodePlan {
  NodeShape shape;
  bool has_program = false;      // from the start
  bool cannot_start = false;     // no program starts here
  std::int64_t memory_mib = 0;   // 0: as much as anybody wants
};

struct HistoryPlan {
  std::vector<NodePlan> nodes;
  std::vector<int> driver_nodes;  // where each driver runs
  std::vector<JobTerms> terms;    // of each driver's job
  std::optional<Duration> preempt_after;
  std::uint64_t store_bytes = 0;
  bool uniform = false;  // one CPU on each node
  bool trusted_fabric = false;
  Plans plans;
  std::vector<Item> items;
  std::vector<Fault> faults;
  Time heal;                      // no faults after this
};
HistoryPlan draw(const Scenario& scenario, const Random& random);

// workload.cc: adds the plans of one item and returns the item's own.
int draw_item(Work work, Random& random, Plans& plans);

// The name of functions whose tasks must not be starved by smaller ones begins like this.
inline constexpr const char* whole_name = "whole";
// And of those that take many seconds and may run again.
inline constexpr const char* lengthy_name = "lengthy";
// And of those that may not.
inline constexpr const char* once_name = "once";

// The name of functions that wait until they are cancelled begins like this.
inline constexpr const char* blocked_name = "blocked";

// What a shape name stands for.
Request request_of(const std::string& shape);

// What is left out of a history.
struct Mask {
  std::set<int> items;
  std::set<int> faults;
};

}  // namespace mobula::internal::sim
