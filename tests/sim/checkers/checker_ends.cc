// Ends: resources of actors without handles, cancelled waits, groups that lose nodes, and bundles
// with devices.
#include <algorithm>

#include "head/core/records/rows.h"
#include "protocol/codec/messages.h"
#include "sim/agent_role.h"
#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration release_timeout = 50ms;  // from the last handle and call until the head knows
constexpr Duration cancel_timeout = 100ms;
// The delay after which younger groups yield their idle bundles, plus the time in which their slots
// become idle.
constexpr Duration regroup_timeout = 12s;

bool has_gpu(const Allocation& allocation) { return allocation.find("GPU") != nullptr; }

Quantity cpus_of(const Allocation& allocation) {
  Quantity sum;
  const auto* held = allocation.find("CPU");
  if (held == nullptr) return sum;
  for (const auto& share : held->shares) sum += share.amount;
  return sum;
}

}  // namespace

Time Checkers::now() const { return world_.now(); }

void Checkers::actor_call_ended(const Process& process, const executor::RunCall& run) {
  const ActorId actor = process.assignment().actor.actor;
  if (!actor.empty()) last_used_[actor] = now();
  const auto cancelled = cancelled_at_.find(result_id(run.call.task, 0));
  if (cancelled == cancelled_at_.end() || any_fault_ ||
      !run.call.form->name.starts_with(blocked_name))
    return;
  if (now() - cancelled->second <= cancel_timeout) return;
  world_.violation("cancelled", "call " + run.call.form->name + " of " + process.name() +
                                    " waits for " +
                                    std::to_string((now() - cancelled->second) / 1ms) +
                                    " ms after it was cancelled");
}

void Checkers::slot_known_gone(SlotId slot) {
  const auto at = placed_.find(slot);
  if (at == placed_.end()) return;
  const ActorId actor = at->second.actor;
  placed_.erase(at);
  const auto gone = handle_gone_.find(actor);
  const auto used = last_used_.find(actor);
  // An executor stores tensor elements that other processes refer to before it exits.
  const bool has_tensors =
      std::ranges::any_of(world_.plan().plans, [](const Plan& plan) { return plan.tensors > 0; });
  if (any_fault_ || has_tensors || actor.empty() || gone == handle_gone_.end() ||
      used == last_used_.end())
    return;
  const Duration held = now() - std::max(gone->second, used->second);
  if (held <= release_timeout) return;
  world_.violation("frees", "actor " + actor.brief() + " keeps its resources for " +
                                std::to_string(held / 1ms) +
                                " ms after its last handle and its last call");
}

void Checkers::spares_devices(const StartSlot& start) const {
  const Allocation& chosen = start.allocation;
  if (chosen.group.empty() || any_fault_ || has_gpu(chosen)) return;
  const auto at = world_.disk().find({"groups", chosen.group.hex()});
  const auto row =
      at == world_.disk().end()
          ? Result<head::GroupRow>(failure(ErrorCode::not_found, "read group: no such row"))
          : decode<head::GroupRow>(at->second);
  const auto index = static_cast<std::size_t>(chosen.bundle);
  if (!row || index >= row->locations.size() || !has_gpu(row->locations[index].allocation)) return;
  if (start.demand_class.request.placement.bundle_index >= 0) return;
  // Blocked executors count, so a node that could still start one may be excluded.
  const auto has_free_executor = [&](NodeId id) {
    const Node* node = world_.node_of(id);
    if (node == nullptr || node->plan.cannot_start) return false;
    if (!start.actor.actor.empty()) return true;
    const auto tasks = std::ranges::count_if(
        placed_, [id](const auto& each) { return each.second.is_task && each.second.node == id; });
    return tasks < node->plan.shape.task_executors;
  };
  for (std::size_t i = 0; i < row->locations.size(); ++i) {
    const Allocation& other = row->locations[i].allocation;
    if (has_gpu(other) || !has_free_executor(row->locations[i].node)) continue;
    Quantity free = cpus_of(other);
    for (const auto& [slot, each] : placed_) {
      const bool inside = each.allocation.group == chosen.group &&
                          each.allocation.bundle == static_cast<std::int32_t>(i);
      if (inside) free -= cpus_of(each.allocation);
    }
    if (free < cpus_of(chosen)) continue;
    return world_.violation("devices", "slot " + start.slot.brief() +
                                           ", which wants no device, gets bundle " +
                                           std::to_string(index) + " with a device, and bundle " +
                                           std::to_string(i) + " fits");
  }
}

// Applies if only groups use the nodes, each node has one CPU, and each bundle needs a separate
// node.
void Checkers::regroups() {
  if (!world_.plan().uniform) return;
  std::size_t nodes = 0, used = 0, wanted = 0;
  for (const Node& node : world_.nodes())
    nodes += node.agent != nullptr && node.agent->core().registered() ? 1 : 0;
  for (const auto& [id, spec] : groups_wanted_) {
    const auto at = world_.disk().find({"groups", id.hex()});
    if (at == world_.disk().end()) continue;
    if (groups_served_.contains(id)) {
      used += spec.bundles.size();
    } else {
      wanted = wanted == 0 ? spec.bundles.size() : std::min(wanted, spec.bundles.size());
    }
  }
  if (wanted == 0 || nodes < used + wanted) return stalled_since_.reset();
  if (!stalled_since_) stalled_since_ = now();
  if (now() - *stalled_since_ <= regroup_timeout) return;
  world_.violation("regroups", "a placement group of " + std::to_string(wanted) +
                                   " bundles waits for " +
                                   std::to_string((now() - *stalled_since_) / 1s) + " s, and " +
                                   std::to_string(nodes - used) + " nodes have no work");
}

}  // namespace mobula::internal::sim
