// One history of the scenarios `fleet`, `fleet_faults`, and `fleet_head`: a FleetCore, a planner, a
// cluster whose nodes run tasks, and a cloud with slow starts, failed launches, a quota,
// terminations, and wrong lists. The core and the head restart. In `fleet_head` the cluster is a
// FleetHead; in the others, the head's planner state is modeled.
// Thread: the simulator's only thread. A world runs one history.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "deploy/fleet/core/fleet_core.h"
#include "sim/fleet/fleet_head.h"
#include "sim/world.h"

namespace mobula::internal::sim {

class FleetWorld final : private FleetHeadShell {
 public:
  explicit FleetWorld(const HistoryOptions& options);
  Outcome run();

 private:
  // A machine of the cloud, with its node once it has joined.
  struct Machine {
    std::string name;
    std::string type;
    Time created;
    Time gone_at;
    bool never_joins = false;
    bool gone = false;
    bool end_ordered = false;
    bool expires = false;
    std::optional<NodeId> node{};
  };
  struct Task {
    int number = 0;
    Duration run{};
  };
  struct Host {
    std::string machine;
    std::string type;
    std::optional<Task> task{};
    SlotId slot{};           // with a FleetHead: the slot of the task
    std::uint64_t turn = 0;  // changes with each task
    Time idle_since;
    bool draining = false;
    Time drain_deadline;
    std::int64_t objects = 0;
    bool dead = false;
  };
  struct Type {
    std::int64_t most = 0;
    std::int64_t least = 0;
  };

  // ---- kernel
  void at(Duration delay, std::function<void()> action);
  void fail(const std::string& checker, const std::string& text);
  void note(const std::string& text);
  bool over() const { return !outcome_.ok; }

  // ---- the autoscaler's shell
  void start_core();
  void step(fleet::FleetEvent event);
  void deliver(fleet::FleetEvent event);
  void tick_later();
  void take_snapshot();
  // Passes a snapshot to the core.
  void pass_snapshot(planner::ClusterState state, bool recovering, std::vector<std::string> dead);
  void execute(const fleet::LaunchInstances& command);
  void execute(const fleet::EndInstances& command);
  void execute(const fleet::ListInstances& command);
  void execute(const fleet::DrainNode& command);
  void execute(const fleet::UndrainNode& command);
  void execute(const fleet::CountObjects& command);
  void execute(const fleet::RevokeTicket& command);
  void execute(const fleet::MakePlan& command);
  void execute(const fleet::RecordEvent& command);
  // Runs `answer` later, unless the core has restarted since.
  void answer_later(Duration delay, std::function<fleet::FleetEvent()> answer);

  // ---- the cloud
  fleet::InstanceAnswer launch(const std::string& type, const std::string& name);
  void join(const std::string& name);
  void terminate(Machine& machine);
  void lose_agent(NodeId node);
  Duration start_time();
  fleet::Listed list_rows();

  // ---- the cluster
  void work();
  void start_tasks();
  void finish(NodeId node, std::uint64_t turn);
  planner::ClusterState state() const;
  std::int64_t demand() const;

  // ---- the cluster of a FleetHead
  void start_head();
  Time time() const override { return now_; }
  void call_after(Duration delay, std::function<void()> action) override {
    at(delay, std::move(action));
  }
  void violation(const std::string& checker, const std::string& text) override {
    fail(checker, text);
  }
  bool slot_ready(SlotId slot, NodeId node) override;
  void slot_lost(SlotId slot) override;
  void executor_ended(SlotId slot, NodeId node) override;
  void drain_changed(NodeId node, bool draining) override;
  std::int64_t leaving_objects(NodeId node) override;
  void finish_leased(NodeId node, SlotId slot);
  void leave_objects(Host& host);
  void query_head();
  void count_objects_at_head(const fleet::CountObjects& command);

  // ---- faults and checkers
  void draw_faults();
  void check_launch(const fleet::LaunchInstances& command);
  void check_end(const Machine& machine);
  void check_event(const fleet::RecordEvent& event);
  void check_maximum();
  void count_scale_down(const Machine& machine);
  bool counts_for_demand(const Machine& machine) const;
  void check_settled();
  bool is_settled() const;

  const HistoryOptions options_;
  const bool faults_;
  Random random_;
  Random cloud_random_;
  Outcome outcome_;
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t order_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;

  fleet::FleetOptions fleet_options_;
  std::map<std::string, Type> types_;
  std::int64_t most_ = 0;
  std::int64_t quota_ = 0;
  std::optional<fleet::FleetCore> core_;
  std::uint64_t core_life_ = 0;
  std::uint64_t names_ = 1;
  Time tick_at_;

  std::map<std::string, Machine> machines_;  // by name
  std::set<std::string> foreign_;
  std::set<std::string> tickets_;
  std::vector<std::string> dead_;     // instances whose agent has died, as the modeled head knows
  std::set<std::string> dead_shown_;  // to the running core
  std::map<NodeId, Host> hosts_;
  std::uint64_t last_node_ = 0;
  std::vector<Task> waiting_;
  std::int64_t running_ = 0;
  int last_task_ = 0;
  std::vector<std::pair<Time, std::int64_t>> demands_;  // recent demand
  std::optional<FleetHead> head_;
  std::map<SlotId, Task> leased_;  // tasks of the slots that the driver has
  std::int64_t most_at_once_ = 0;  // tasks that the quota of the job permits; 0: no quota
  bool head_recovers_ = false;
  bool head_away_ = false;
  bool lied_ = false;  // the last list was wrong
  Time calm_at_;       // no fault and no new task after this time
  Duration snapshot_interval_ = 2s;
};

}  // namespace mobula::internal::sim
