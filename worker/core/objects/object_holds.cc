#include "worker/core/objects/object_holds.h"

#include <utility>

namespace mobula::internal::worker {

void ObjectHolds::learn(HeldObject& held, const RefRecord& ref) const {
  if (!held.home.empty()) return;
  held.home = ref.home.empty() ? context_.self : ref.home;
  held.owner = ref.owner;
}

// ---- holds of the agent -------------------------------------------------------------------------

bool ObjectHolds::pin(ObjectId object) {
  const HeldObject* held = rows_.find(object);
  const bool pinned = held != nullptr && held->pins > 0;
  if (!pinned && !context_.table.hold(context_.agent, object)) return false;
  ++rows_[object].pins;
  return true;
}

void ObjectHolds::pin_contained(ObjectId object) {
  if (!rows_.at(object).pinned.empty()) return;
  const RefRecords refs = rows_.at(object).contained;
  for (const RefRecord& ref : refs) {
    if (!pin(ref.object)) continue;
    rows_.at(object).pinned.push_back(ref.object);
    HeldObject& held = rows_.at(ref.object);
    learn(held, ref);
    at_home(held) ? port_.ref_arrived(ref.object) : request_node_hold(ref.object, held);
  }
}

void ObjectHolds::unpin(ObjectId object) {
  unpins_.push_back(object);
  drain_unpins();
}

void ObjectHolds::drain_unpins() {
  if (draining_) return;
  draining_ = true;
  while (!unpins_.empty()) {
    const ObjectId object = unpins_.back();
    unpins_.pop_back();
    HeldObject* held = rows_.find(object);
    if (held == nullptr || held->pins == 0) continue;
    if (--held->pins == 0) apply(context_.table.release(context_.agent, object));
    settle(object);
  }
  draining_ = false;
}

void ObjectHolds::keep_for(ObjectId object, Duration span) {
  const std::optional<Time> kept = rows_.at(object).orphan_until;
  if (kept && *kept >= context_.now() + span) return;
  if (!kept && !pin(object)) return;
  rows_.at(object).orphan_until = context_.timers.start(object, ObjectTimers::Kind::orphan, span);
}

void ObjectHolds::orphan_expired(ObjectId object, Time at) {
  HeldObject* held = rows_.find(object);
  if (held == nullptr || held->orphan_until != at) return;
  held->orphan_until.reset();
  unpin(object);
}

std::size_t ObjectHolds::pins() const {
  std::size_t sum = 0;
  for (const auto& [object, held] : rows_) sum += static_cast<std::size_t>(held.pins);
  return sum;
}

// ---- holds of this node at the home -------------------------------------------------------------

void ObjectHolds::request_node_hold(ObjectId object, HeldObject& held) {
  if (held.node_hold != NodeHoldState::none || context_.peers.is_dead(held.home)) return;
  held.node_hold = NodeHoldState::requested;
  RequestedHolds& requested = holds_requested_[object];
  requested.home = held.home;
  ++requested.count;
  context_.peers.send(held.home, NodeHoldRequest{object, context_.table.find(object)->job});
}

// A hold may be requested, released and requested again before the first reply: only the last reply
// counts.
bool ObjectHolds::on(const NodeHoldReply& message) {
  const auto requested = holds_requested_.find(message.object);
  if (requested == holds_requested_.end()) return false;
  if (--requested->second.count > 0) return false;
  holds_requested_.erase(requested);
  HeldObject* held = rows_.find(message.object);
  if (held == nullptr || held->node_hold != NodeHoldState::requested) return false;
  held->node_hold = message.known ? NodeHoldState::confirmed : NodeHoldState::none;
  confirm_waiters(message.object);
  return true;
}

void ObjectHolds::confirm_waiters(ObjectId object) {
  for (const ProcessId process : std::exchange(rows_.at(object).hold_waiters, {})) {
    context_.processes.send(process, HoldObjectReply{object});
  }
}

void ObjectHolds::node_died(NodeId node) {
  std::erase_if(holds_requested_, [&](const auto& each) { return each.second.home == node; });
}

// ---- ends of holds ------------------------------------------------------------------------------

void ObjectHolds::apply(Consequences consequences) {
  for (const GoneObject& each : consequences.gone) erase(each.object);
  port_.memory_freed(consequences.slabs, !consequences.gone.empty());
  for (const ObjectId object : consequences.interrupted) port_.interrupted(object);
  drain_unpins();
}

void ObjectHolds::erase(ObjectId object) {
  HeldObject* held = rows_.find(object);
  if (held == nullptr) return;
  const HeldObject last = std::move(*held);
  rows_.erase(object);
  port_.erased(object, last);
  unpins_.insert(unpins_.end(), last.pinned.begin(), last.pinned.end());
}

void ObjectHolds::settle(ObjectId object) {
  const ObjectRow* row = context_.table.find(object);
  HeldObject* held = rows_.find(object);
  if (row == nullptr || held == nullptr) return;
  if (!at_home(*held) && row->processes.empty() && held->node_hold != NodeHoldState::none) {
    held->node_hold = NodeHoldState::none;
    context_.peers.send(held->home, NodeRelease{object});
  }
  const bool only_agent = row->processes.size() == 1 && row->processes.contains(context_.agent);
  if (held->pins == 1 && only_agent) port_.only_pinned(object);
}

void ObjectHolds::process_ended(ProcessId process) {
  for (auto& [object, held] : rows_) held.hold_waiters.erase(process);
}

}  // namespace mobula::internal::worker
