// The loop of `mobula autoscale`: connects a FleetCore to the head, to a provider program, and to a
// thread that plans. It reads the cluster's state when the head's number of changes moves, at most
// once a second, and reports the state of the fleet to the head.
// Thread: the event loop.
// Not: supervision, the search for the head.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deploy/fleet/core/fleet_core.h"
#include "deploy/fleet/head_link.h"
#include "deploy/fleet/node_types.h"
#include "deploy/fleet/provider_process.h"
#include "deploy/fleet/work_thread.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal::fleet {

struct AutoscalerOptions {
  NodeTypes types;
  std::vector<std::string> provider{};  // program and arguments
  std::function<void(const std::string&)> log{};
};

class Autoscaler {
 public:
  Autoscaler(EventLoop& loop, AutoscalerOptions options, HeadLink::Find find);
  Autoscaler(const Autoscaler&) = delete;
  Autoscaler& operator=(const Autoscaler&) = delete;
  ~Autoscaler();

  // Begins. The loop must run afterwards.
  void start();

 private:
  // ---- the head
  void on_connected();
  void on_lost(const std::string& why);
  void poll_changes();
  void request_snapshot();
  void take_snapshot();
  void take_state(const std::string& text);
  void report_soon();
  void send_report();
  void take_orders(const std::string& text);

  // ---- the provider
  void describe();
  void call(ProviderRequest request, std::function<void(const ProviderReply&)> done);
  void step_provider();
  void watch_provider();
  ProviderRequest request_of(ProviderCall call) const;

  // ---- the core
  void begin_core();
  void step(FleetEvent event);
  void execute(const LaunchInstances& command);
  void execute(const EndInstances& command);
  void execute(const ListInstances& command);
  void execute(const DrainNode& command);
  void execute(const UndrainNode& command);
  void execute(const CountObjects& command);
  void execute(const RevokeTicket& command);
  void execute(MakePlan& command);
  void execute(const RecordEvent& command);

  // ---- tickets
  void make_ticket(const std::string& name, std::function<void(const Result<void>&)> done);
  void send_launch(const LaunchInstances& command);
  void fail_launch(const LaunchInstances& command, const std::string& why);
  InstanceSpec spec_of(const std::string& name, const planner::NodeType& type) const;
  void log(const std::string& text) const;

  EventLoop& loop_;
  const AutoscalerOptions options_;
  const nlohmann::json settings_;  // `provider` of the types file
  HeadLink head_;
  ProviderProcess provider_;
  std::map<std::uint64_t, std::function<void(const ProviderReply&)>> calls_;
  std::map<int, Watch> watches_;  // by descriptor of the provider's processes
  bool stepping_provider_ = false;
  std::string cluster_;
  std::string cluster_id_;
  std::optional<std::int64_t> max_pending_;
  bool described_ = false;
  std::string provider_fault_;

  std::unique_ptr<FleetCore> core_;
  bool polling_ = false;
  bool snapshot_pending_ = false;
  bool snapshot_wanted_ = false;
  Time next_snapshot_;
  Time snapshot_at_;
  std::string seen_;  // the head's number of changes, as EPOCH:NUMBER

  std::map<std::string, std::string> tickets_;  // texts of join tokens, by instance
  std::vector<RecordEvent> events_;             // not yet reported
  bool reporting_ = false;
  std::uint64_t orders_done_ = 0;  // number of the last executed order of this head
  std::string reported_;           // line and reasons of the last report
  Time next_report_;

  Timer snapshot_timer_;
  Timer report_timer_;
  Timer core_timer_;
  Timer provider_timer_;
  Timer describe_timer_;
  Timer poll_timer_;
  // Last, so that its thread ends before the members that its functions use.
  WorkThread work_;
};

}  // namespace mobula::internal::fleet
