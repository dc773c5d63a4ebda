// The cluster of the scenario `fleet_head`: a HeadCore with its scheduler and journal, the agents
// of the machines, one driver, and requests of tools. Messages cross links as encoded bytes. Agents
// and driver are models: an agent runs one executor per slot, and the driver leases one slot per
// waiting task.
// Thread: the simulator's only thread. Not: machines, tasks, checkers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "head/core/head_core.h"
#include "protocol/messages/tools.h"
#include "protocol/session/session.h"

namespace mobula::internal::sim {

// Owner of a FleetHead: time, machines, and tasks.
class FleetHeadShell {
 public:
  virtual ~FleetHeadShell() = default;
  virtual Time time() const = 0;
  virtual void call_after(Duration delay, std::function<void()> action) = 0;
  virtual void violation(const std::string& checker, const std::string& text) = 0;

  // The driver may run a task in this slot. False: no task waits.
  virtual bool slot_ready(SlotId slot, NodeId node) = 0;
  // The driver no longer has the slot, and its task must run again.
  virtual void slot_lost(SlotId slot) = 0;
  // The executor of the slot has ended.
  virtual void executor_ended(SlotId slot, NodeId node) = 0;
  // The head announces a drain or its end.
  virtual void drain_changed(NodeId node, bool draining) = 0;
  // Objects that only this draining node holds.
  virtual std::int64_t leaving_objects(NodeId node) = 0;
};

struct FleetHeadOptions {
  Duration heartbeat = 2s;
  std::optional<Quantity> cpu_quota{};  // quota of the job
  Quantity cpus_per_task;
};

class FleetHead {
 public:
  FleetHead(FleetHeadShell& shell, Random random, FleetHeadOptions options);

  // Starts the head, at first and after a crash.
  void start();
  void crash();
  bool is_away() const { return !core_; }

  void agent_starts(NodeId node, NodeShape shape);
  // The agent's process dies: its connections end, and new ones are refused.
  void agent_dies(NodeId node);
  // The machine is gone: its connections stay silent.
  void machine_gone(NodeId node);

  // The driver has this number of tasks without a slot.
  void set_waiting(std::int64_t tasks);
  // The task in the slot has ended.
  void task_done(SlotId slot);
  // Executors of live agents without a task: starting, returned, or ending.
  std::int64_t spare_executors() const;

  // Sends an operator's request. A head that crashes before it answers never answers.
  void query(const std::string& verb, const std::string& kind, const std::string& argument,
             std::function<void(const ToolReply&)> reply);

 private:
  static constexpr Duration demand_delay = 50ms;          // collects changes of the demand
  static NodeId home() { return NodeId::of(1'000'000); }  // node of the driver
  static ProcessId driver() { return ProcessId::of(1); }
  static JobId job() { return JobId::of(1); }
  static Principal driver_principal() { return {internal::Role::driver, "user", job()}; }

  struct Agent {
    NodeId node;
    ProcessId incarnation;
    internal::Role role = internal::Role::agent;
    NodeShape shape;
    head::LinkId link = 0;
    std::uint64_t epoch = 0;
    std::optional<Session<AgentMessage, HeadMessage>> session{};
    std::vector<AgentMessage> unsent{};  // since the registration was sent
    std::map<SlotId, SlotFact> slots{};
    Time up_at, down_at;  // arrival of the last message in each direction
    std::optional<Time> tick_at{};
  };
  struct Lease {
    NodeId node;
    bool busy = false;
    bool recalled = false;
  };

  // ---- the head
  void step(head::Event event);
  void tick_later();
  void carry_out(head::Command& command);
  void persist(head::Persist batch);
  void send_down(head::LinkId link, const HeadToAgent& message);

  // ---- agents
  Duration latency();
  Agent* agent_of(NodeId node, ProcessId incarnation);
  void add_agent(NodeId node, internal::Role role, NodeShape shape);
  void beat(NodeId node, ProcessId incarnation);
  void register_agent(Agent& agent);
  void send_up(Agent& agent, const AgentToHead& message);
  void send(Agent& agent, AgentMessage message);
  void send_frames(Agent& agent, std::vector<Frame<AgentMessage>> frames);
  void tick_agent_later(Agent& agent);
  void receive(Agent& agent, HeadToAgent message);
  void on(Agent& agent, RegisterReply message);
  void on(Agent& agent, const RegisterRejected& message);
  void on(Agent& agent, HeadFrame message);
  void on(Agent& agent, const TicketRenewed&) { (void)agent; }
  void take(Agent& agent, const HeadMessage& message);
  void start_slot(Agent& agent, const StartSlot& message);
  void stop_slot(Agent& agent, SlotId slot);
  void end_slot(Agent& agent, SlotId slot);
  void end_agent(NodeId node);
  Facts facts_of(const Agent& agent) const;

  // ---- the driver
  void start_job();
  void driver_sends(ProcessToHead message);
  void driver_receives(const HeadToProcess& message);
  void serve(SlotId slot);
  void return_slot(SlotId slot);
  void report_demand();
  DemandClass demand_class() const;

  FleetHeadShell& shell_;
  Random random_;
  const FleetHeadOptions options_;
  std::optional<head::HeadCore> core_;
  std::uint64_t life_ = 0;
  Time tick_at_;
  std::map<std::pair<std::string, std::string>, Bytes> disk_;
  Time persist_at_;
  head::LinkId last_link_ = 0;
  std::map<head::LinkId, NodeId> links_;  // open at the head
  std::map<NodeId, Agent> agents_;
  std::uint64_t last_process_ = 10'000;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, std::function<void(const ToolReply&)>> replies_;

  std::map<SlotId, Lease> leases_;
  std::vector<SlotId> fresh_;  // not yet named in a Demand
  std::set<SlotId> returned_;
  std::int64_t waiting_ = 0;
  std::uint64_t demand_version_ = 0;
  bool admitted_ = false;
  bool demand_due_ = false;
};

}  // namespace mobula::internal::sim
