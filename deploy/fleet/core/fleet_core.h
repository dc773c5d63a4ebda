// Decides which instances to launch, drain, and end. It matches instances to nodes by the label
// `instance_label`, requests a plan after each snapshot of the cluster, and reacts to failures.
// After a restart the provider's list is the truth: the core adopts the instances of its cluster
// and never touches others.
// Thread: owner (one shell). Not: clock, thread, I/O, tickets, JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deploy/fleet/core/fleet_commands.h"
#include "deploy/fleet/core/fleet_events.h"
#include "deploy/fleet/core/fleet_options.h"
#include "deploy/fleet/core/fleet_report.h"
#include "deploy/fleet/core/type_gate.h"

namespace mobula::internal::planner {
struct Unit;
}  // namespace mobula::internal::planner

namespace mobula::internal::fleet {

// Promises:
//   - The instances of a type, and of all types, never exceed their maximum.
//   - A launch without an answer counts as a node, so one demand never launches two.
//   - No instance ends while the head recovers, or after an incomplete list.
//   - An instance with a node ends only after a drain that left it empty, or without its agent.
class FleetCore {
 public:
  explicit FleetCore(FleetOptions options);

  // Handles one input and appends commands. `now` never decreases.
  void step(Time now, FleetEvent event, std::vector<FleetCommand>& out);
  // Time of the next FleetTick if no other event precedes it.
  std::optional<Time> next_deadline() const;

  // True while instances start, drain, or end, so that the shell takes snapshots more often.
  bool is_busy() const;
  bool has_instances() const { return !instances_.empty(); }
  FleetReport report(Time now) const;

 private:
  // Time in which a snapshot may be older than an undrain.
  static constexpr Duration undrain_timeout = Duration(std::chrono::seconds(30));
  // Whole lists before the first plan: one list may lack an instance of an earlier run.
  static constexpr int first_lists = 2;
  // A launch is not repeated later after its failure, because its demand may have ended.
  static constexpr Duration repeat_timeout = Duration(std::chrono::seconds(30));

  struct Instance {
    std::string name;
    std::string type;
    std::string ref;
    InstanceState state = InstanceState::requested;
    Time requested_at;
    Time starts_since;       // start of launch_timeout; moves while the instance waits for capacity
    bool in_flight = false;  // the provider has a call about it
    bool known_at_list = false;  // was accepted when the running list was requested
    bool pending = false;        // the provider says that it waits for capacity
    std::int64_t tries = 0;      // failed launches
    Time failed_at;              // last failed launch
    std::int64_t lists_without = 0;
    std::string reason{};  // from the provider
    std::optional<Time> ends_at{};

    NodeId node;
    bool has_joined = false;
    bool died_unseen = false;  // its agent joined and died between two snapshots
    bool is_adopted = false;
    std::optional<Time> absent_since{};
    bool is_idle = false;
    bool is_replaced = false;
    Time keep_until;  // no idle drain before

    Time drain_deadline;
    bool drained_by_us = false;
    bool undrainable = true;
    // The undrain is ordered, and a snapshot may be older than it; reset by the first one without
    // the drain.
    Time undrain_until;
    bool is_empty = false;           // draining, and the last snapshot has no allocation
    std::string end_why{};           // not empty: ends as soon as that is safe
    std::uint64_t end_snapshot = 0;  // the end needs a snapshot with at least this number
    Time end_retry_at;
    Duration end_backoff{0};
  };
  using Instances = std::map<std::string, Instance>;

  void on(SnapshotReceived event);
  void on(Planned event);
  void on(const Listed& event);
  void on(const ListFailed& event);
  void on(const LaunchAnswered& event);
  void on(const EndAnswered& event);
  void on(const Drained& event);
  void on(const PauseType& event);
  void on(const ResumeType& event);
  void on(const FleetTick&) {}

  // ---- instances
  void match(Instance& each, const planner::ClusterNode* node);
  void lose(Instance& each);
  void check_type(const Instance& each, const planner::ClusterNode& node);
  void adopt(const InstanceRow& row, std::uint64_t number);
  void end_failed(const Listed& event);
  void take_row(Instance& each, const InstanceRow& row);
  void fail_launch(Instance& each, const ProviderFailure& failure);
  void fail_start(const Instance& each, const std::string& why);
  Instances::iterator remove(Instances::iterator at, const std::string& why);
  void set_state(Instance& each, InstanceState state) { each.state = state; }
  void drain(Instance& each, Duration timeout, bool undrainable);
  void undrain(Instance& each);
  void stop_drain(Instance& each);
  bool may_end() const { return list_is_whole_ && has_snapshot_ && !recovering_; }

  // ---- deadlines
  void settle();
  void check_deadlines(Instance& each);
  void check_drain(Instance& each);
  void repeat_launches();
  void send_ends();
  void send_list();
  void send_plan();
  void record(const char* kind, std::string text);
  void record_pause(const std::string& type, bool was_paused);
  std::optional<Time> deadline_of(const Instance& each) const;
  static std::optional<Time> repeat_end(const Instance& each);

  // ---- plans
  planner::ClusterState state_for_plan() const;
  std::vector<planner::NodeType> types_for_plan() const;
  void launch(const std::string& type, std::int64_t count, Time keep_until);
  std::int64_t undrain(const std::string& type, std::int64_t count);
  void replace_expiring();
  std::vector<Instance*> spares_of(const std::string& type);
  bool ends_soon(const Instance& each) const;
  std::int64_t free_capacity(const planner::NodeType& type) const;
  std::int64_t pending_of(const std::string& type) const;
  std::string lacks_of(const planner::Unit& unit) const;
  void explain_waits(const planner::Plan& plan);
  const planner::NodeType* type_of(const std::string& name) const;

  const FleetOptions options_;
  Time now_;
  std::vector<FleetCommand>* out_ = nullptr;
  Instances instances_;  // by name
  std::map<std::string, TypeGate> gates_;
  std::uint64_t next_number_;

  bool has_snapshot_ = false;
  bool recovering_ = false;
  Time snapshot_at_;
  planner::ClusterState snapshot_;
  std::uint64_t snapshot_number_ = 0;

  bool list_is_whole_ = false;  // result of the last list
  int whole_lists_ = 0;         // received, at most first_lists
  bool list_running_ = false;
  Time list_at_;
  Duration list_backoff_{0};
  std::string list_failure_;

  bool plan_running_ = false;
  bool plan_is_stale_ = false;  // instances appeared while the plan was made
  std::uint64_t plan_number_ = 0;
  std::uint64_t planned_snapshot_ = 0;
  std::vector<planner::WantedSlots> planned_slots_;
  std::vector<WaitStatus> waits_;
};

}  // namespace mobula::internal::fleet
