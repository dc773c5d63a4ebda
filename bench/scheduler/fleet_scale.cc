// Cost of one decision of the autoscaler by thread: clusters of 8-GPU nodes that it launched, and
// 1,000 classes of waiting tasks that no node can serve. Prints the longest step of the loop of the
// head, which writes the snapshot, and of the loop of the autoscaler, which runs its core. The
// other times are those of the thread that reads the snapshot and plans. All are processor times,
// which exclude other load. Fails if a figure of 1,000 nodes or fewer exceeds its limit.
//
// mobula-bench-fleet [NODES...]      default: 10 100 1000
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/gpu_node.h"
#include "bench/measure/thread_time.h"
#include "deploy/fleet/core/fleet_core.h"
#include "deploy/fleet/planner_state.h"
#include "head/core/head_core.h"
#include "protocol/codec/messages.h"
#include "protocol/session/session.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::fleet {
namespace {

constexpr int gpus = 8;
constexpr int classes = 1000;
constexpr int rounds = 10;
constexpr double head_bound_ms = 100;
constexpr double loop_bound_ms = 100;
constexpr double plan_bound_ms = 500;

template <class Work>
double timed(double& worst, Work work) {
  const double begin = thread_cpu_ms();
  work();
  const double spent = thread_cpu_ms() - begin;
  worst = std::max(worst, spent);
  return spent;
}

NodeShape shape_of(bool large) {
  NodeShape shape = gpu_node_shape(gpus);
  if (large) shape.resources.push_back({"large", {{Quantity::whole(64), "", {}, 0}}});
  shape.task_executors = shape.actor_executors = 1000;
  return shape;
}

std::string name_of(int number) { return instance_name("c", static_cast<std::uint64_t>(number)); }

// A head without sockets and disk, with its agents.
class Head {
 public:
  explicit Head(int nodes) {
    head::Started started;
    started.epoch_id = Hash128{7, 1};
    step(std::move(started));
    for (int i = 0; i < nodes; ++i) join(i);
    demand();
  }

  std::string planner_state() {
    head::ReceivedFromTool query;
    query.link = 1'000'000;
    query.principal = Principal{Role::operator_, "tool", {}};
    query.request.request = 1;
    query.request.verb = "planner_state";
    return step(std::move(query));
  }

 private:
  // Returns the text of the reply to a tool, if one is sent. Persisted state is durable at once.
  std::string step(head::Event event) {
    std::vector<head::Command> commands;
    now_ = now_ + 20us;
    core_.step(now_, std::move(event), commands);
    std::string reply;
    std::uint64_t persisted = 0;
    for (auto& each : commands) {
      if (auto* admitted = std::get_if<head::Admit>(&each))
        epoch_ = admitted->registered.head_epoch;
      if (auto* replied = std::get_if<head::ReplyToTool>(&each))
        reply = std::move(replied->reply.json);
      if (auto* persist = std::get_if<head::Persist>(&each)) persisted = persist->n;
    }
    if (persisted > 0) step(head::Persisted{persisted});
    return reply;
  }

  static ProcessId agent_of(int number) {
    return ProcessId::of(10'000 + static_cast<unsigned>(number));
  }

  void join(int number) {
    RegisterRequest message;
    const auto node = NodeId::derived(JobId::of(1), "node", static_cast<std::uint64_t>(number));
    message.address = {node, agent_of(number), fmt::format("node{}:7000", number), "", ""};
    message.host = fmt::format("node{}.cluster.example", number);
    message.role = Role::agent;
    message.shape = shape_of(false);
    message.shape.labels = {{instance_label, name_of(number)}, {planner::node_type_label, "eight"}};
    step(head::ReceivedFromAgent{static_cast<head::LinkId>(number) + 1,
                                 Principal{Role::agent, "key", {}}, std::move(message)});
  }

  void from_agent(AgentMessage message) {
    std::vector<Frame<AgentMessage>> frames;
    session_.send(now_, std::move(message), frames);
    for (auto& frame : frames) {
      constexpr std::uint64_t never = ~std::uint64_t{0};
      AgentFrame whole{epoch_, agent_of(0), 0, 0, std::move(frame), never};
      step(head::ReceivedFromAgent{1, Principal{Role::agent, "key", {}}, std::move(whole)});
    }
  }

  void demand() {
    const Principal driver{Role::driver, "user", JobId::of(1)};
    const auto process = ProcessId::of(500'000);
    from_agent(ProcessAttached{{process, driver, 4711}});
    StartJob job;
    job.job = JobId::of(1);
    job.driver = process;
    job.program.id = ProgramId::of(1);
    from_agent(FromProcess{process, driver, std::move(job)});
    for (int i = 0; i < classes; ++i) {
      Demand wanted;
      wanted.demand_class.id = ClassId::of(static_cast<std::uint64_t>(i) + 1);
      wanted.demand_class.job = JobId::of(1);
      wanted.demand_class.program = ProgramId::of(1);
      auto& resources = wanted.demand_class.request.resources;
      resources.set("large", Quantity::whole(1));
      resources.set("GPU", Quantity::from_units(2500 * (1 + i % 4)));
      resources.set("CPU", Quantity::from_units(10'000 + i % 50));
      wanted.version = 1;
      wanted.wanted_slots = wanted.waiting_tasks = 5;
      wanted.mean_run = std::chrono::hours(1);
      from_agent(FromProcess{process, driver, std::move(wanted)});
    }
  }

  head::HeadCore core_{head::HeadOptions{}};
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t epoch_ = 0;
  Session<AgentMessage, HeadMessage> session_;
};

FleetOptions options_for(int nodes) {
  FleetOptions options;
  options.cluster = "c";
  options.first_number = 1'000'000;
  for (const bool large : {false, true}) {
    planner::NodeType type;
    type.name = large ? "large" : "eight";
    type.shape = shape_of(large);
    type.shape.labels = {{planner::node_type_label, type.name}};
    type.max_workers = 2 * nodes;
    options.types.push_back(std::move(type));
  }
  options.limits.max_workers = 3 * nodes;
  options.limits.upscaling_milli = 1'000'000;
  return options;
}

struct Figures {
  double head = 0, read = 0, plan = 0, loop = 0;  // worst, ms
  std::size_t bytes = 0;
  std::int64_t launched = 0;
};

Figures measure(int nodes) {
  Head head(nodes);
  Figures seen;
  for (int round = 0; round < rounds; ++round) {
    const auto options = options_for(nodes);
    FleetCore core(options);
    Time now = Time::from_ns(1'000'000'000);
    std::optional<MakePlan> order;
    const auto step = [&](FleetEvent event) {
      timed(seen.loop, [&] {
        std::vector<FleetCommand> commands;
        core.step(now, std::move(event), commands);
        (void)core.report(now);
        (void)core.next_deadline();
        for (auto& each : commands) {
          if (auto* plan = std::get_if<MakePlan>(&each)) order = std::move(*plan);
          const auto* launch = std::get_if<LaunchInstances>(&each);
          if (launch != nullptr) seen.launched = static_cast<std::int64_t>(launch->names.size());
        }
      });
    };
    Listed list{{}, true};
    for (int i = 0; i < nodes; ++i) {
      list.rows.push_back({name_of(i), fmt::format("ref-{}", i), "eight", ProviderState::running});
    }
    step(FleetTick{});
    step(list);
    step(std::move(list));  // the first plan needs two lists
    std::string text;
    timed(seen.head, [&] { text = head.planner_state(); });
    seen.bytes = text.size();
    std::optional<PlannerState> state;
    timed(seen.read, [&] {
      auto parsed = planner_state_of(nlohmann::ordered_json::parse(text, nullptr, false));
      MOBULA_CHECK(parsed, "the head's snapshot is readable");
      state = std::move(parsed).value();
    });
    MOBULA_CHECK(state->cluster.slots.size() == classes, "all classes wait");
    step(SnapshotReceived{std::move(state->cluster), false});
    MOBULA_CHECK(order, "a snapshot leads to a plan");
    planner::Plan plan;
    timed(seen.plan, [&] { plan = planner::plan(order->state, order->types, options.limits); });
    step(Planned{order->number, std::move(plan)});
  }
  return seen;
}

}  // namespace
}  // namespace mobula::internal::fleet

int main(int argc, char** argv) {
  using namespace mobula::internal::fleet;
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {10, 100, 1000};
  fmt::print(
      "limits for 1,000 nodes: head {:.0f} ms, autoscaler's loop {:.0f} ms, plan {:.0f} ms\n",
      head_bound_ms, loop_bound_ms, plan_bound_ms);
  fmt::print("{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "nodes", "head ms", "MB",
             "read ms", "plan ms", "loop ms", "launched");
  bool within = true;
  for (const int nodes : sizes) {
    const auto seen = measure(nodes);
    fmt::print("{:>6} {:>10.1f} {:>10.2f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10}\n", nodes, seen.head,
               static_cast<double>(seen.bytes) / 1e6, seen.read, seen.plan, seen.loop,
               seen.launched);
    within =
        within && (nodes != 1000 || (seen.head <= head_bound_ms && seen.loop <= loop_bound_ms &&
                                     seen.read + seen.plan <= plan_bound_ms));
  }
  return within ? 0 : 1;
}
