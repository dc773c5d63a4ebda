// The part of a FleetWorld that is the shell of a FleetHead.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "deploy/fleet/planner_state.h"
#include "sim/fleet/fleet_world.h"

namespace mobula::internal::sim {

void FleetWorld::start_head() {
  Random random = Random(options_.seed).fork("head");
  FleetHeadOptions options;
  options.heartbeat = most_ >= 1000 ? Duration(30s) : Duration(2s);
  options.cpus_per_task = Quantity::whole(4);
  if (random.chance(400)) {
    most_at_once_ = random.between(std::max<std::int64_t>(2, most_ / 3), most_);
    options.cpu_quota = Quantity::whole(4 * most_at_once_);
  }
  FleetHeadShell& shell = *this;
  head_.emplace(shell, random.fork("cluster"), options);
}

void FleetWorld::query_head() {
  head_->query("planner_state", "", "", [this, of_life = core_life_](const ToolReply& reply) {
    if (of_life != core_life_ || !reply.ok) return;
    auto state = fleet::planner_state_of(
        nlohmann::ordered_json::parse(reply.json, nullptr, /*allow_exceptions=*/false));
    if (!state) return fail("planner state", state.error().text);
    pass_snapshot(std::move(state->cluster), !state->warnings.empty(),
                  std::move(state->dead_instances));
  });
}

void FleetWorld::count_objects_at_head(const fleet::CountObjects& command) {
  head_->query("list", "memory", "", [this, of_life = core_life_, command](const ToolReply& reply) {
    if (of_life != core_life_ || !reply.ok) return;
    const auto report = nlohmann::ordered_json::parse(reply.json, nullptr, false);
    for (const auto& store : report.at("nodes")) {
      const auto node = NodeId::from_hex(store.at("node_id").get<std::string>());
      if (!node || std::ranges::find(command.nodes, *node) == command.nodes.end()) continue;
      step(fleet::Drained{*node, store.at("leaving_objects").get<std::int64_t>()});
    }
  });
}

bool FleetWorld::slot_ready(SlotId slot, NodeId node) {
  if (waiting_.empty()) return false;
  const Task task = waiting_.back();
  waiting_.pop_back();
  leased_[slot] = task;
  ++running_;
  if (most_at_once_ > 0 && running_ > most_at_once_) {
    fail("quota", std::to_string(running_) + " tasks run, and the quota of the job permits " +
                      std::to_string(most_at_once_));
  }
  const auto host = hosts_.find(node);
  if (host == hosts_.end() || host->second.dead) return true;  // its loss is not yet known
  if (host->second.task) fail("overlap", host->second.machine + " runs two tasks");
  host->second.task = task;
  host->second.slot = slot;
  at(task.run, [this, node, slot, turn = ++host->second.turn] {
    const auto still = hosts_.find(node);
    if (still == hosts_.end() || still->second.turn != turn || !still->second.task) return;
    finish_leased(node, slot);
  });
  start_tasks();
  return true;
}

void FleetWorld::finish_leased(NodeId node, SlotId slot) {
  Host& host = hosts_.at(node);
  host.task.reset();
  if (leased_.erase(slot) > 0) --running_;
  leave_objects(host);
  head_->task_done(slot);
  start_tasks();
}

void FleetWorld::slot_lost(SlotId slot) {
  const auto at = leased_.find(slot);
  if (at == leased_.end()) return;
  waiting_.push_back(at->second);  // runs again on another node
  leased_.erase(at);
  --running_;
  start_tasks();
}

void FleetWorld::executor_ended(SlotId slot, NodeId node) {
  const auto host = hosts_.find(node);
  if (host != hosts_.end() && host->second.task && host->second.slot == slot)
    host->second.task.reset();
  demands_.emplace_back(now_, demand());
}

void FleetWorld::drain_changed(NodeId node, bool draining) {
  const auto host = hosts_.find(node);
  if (host == hosts_.end()) return;
  note((draining ? "drain " : "undrain ") + host->second.machine);
  host->second.draining = draining;
}

}  // namespace mobula::internal::sim
