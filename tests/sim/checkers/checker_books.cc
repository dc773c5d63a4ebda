// Accounting of slots and instances from messages and processes, durability, and the recipients of
// grants.
#include <algorithm>

#include "head/core/records/rows.h"
#include "protocol/codec/messages.h"
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

using Used = std::map<std::pair<std::string, std::uint32_t>, InstanceShare>;

void add(Used& used, const Allocation& allocation, bool without_cpu) {
  for (const auto& resource : allocation.resources) {
    if (without_cpu && resource.name == "CPU") continue;
    for (const auto& share : resource.shares) {
      auto& sum = used[{resource.name, share.index}];
      sum.amount += share.amount;
      sum.memory_bytes += share.memory_bytes;
    }
  }
}

// Names the resources that exceed the node's total. Empty if no resource does.
std::string excess(const Used& used, const NodeShape& shape) {
  for (const auto& [key, sum] : used) {
    const auto* resource = shape.find(key.first);
    if (resource == nullptr) {
      if (key.first.starts_with("accelerator_type:")) continue;
      return key.first + ", which the node does not have";
    }
    if (key.second >= resource->instances.size())
      return "instance " + std::to_string(key.second) + " of " + key.first;
    const auto& instance = resource->instances[key.second];
    if (sum.amount > instance.total ||
        (instance.memory_bytes > 0 && sum.memory_bytes > instance.memory_bytes)) {
      return sum.amount.to_string() + " of " + instance.total.to_string() + " " + key.first + " " +
             std::to_string(key.second);
    }
  }
  return {};
}

}  // namespace

void Checkers::fault(FaultKind kind) {
  using enum FaultKind;
  any_fault_ = true;
  const bool harmless = kind == slow_network || kind == repeats || kind == disk_slow ||
                        kind == head_link_break || kind == spill_slow || kind == bulk_slow ||
                        kind == bulk_breaks || kind == bulk_corrupts;
  lossy_ |= !harmless;
  news_lost_ |= kind == news_lost;
  streams_lose_ |= kind == stream_break || kind == peer_cut || kind == peer_lost ||
                   kind == slow_network || kind == driver_pause || kind == executor_pause;
  peers_overlap_ |= kind == head_link_cut || kind == agent_pause || kind == agent_crash ||
                    kind == home_crash || kind == node_away || kind == node_drained ||
                    kind == head_and_agent_crash;
}

void Checkers::head_crashed() {
  demands_.clear();
  // Forgets orders that no agent received: they count as never given.
  for (auto at = granted_.begin(); at != granted_.end();) {
    at = at->second.received ? std::next(at) : granted_.erase(at);
  }
}

void Checkers::head_hears(const AgentToHead& message) {
  const auto* frame = std::get_if<AgentFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  auto& last = received_[{frame->head_epoch, frame->incarnation}];
  if (frame->frame.sequence != last + 1) return;
  last = frame->frame.sequence;
  if (const auto* relayed = std::get_if<FromProcess>(&*frame->frame.message)) on_terms(*relayed);
  if (const auto* gone = std::get_if<SlotGone>(&*frame->frame.message)) {
    not_gone_.erase(gone->slot);
    slot_known_gone(gone->slot);
  }
  if (const auto* lent = std::get_if<SlotCpuReleased>(&*frame->frame.message)) {
    const auto at = granted_.find(lent->slot);
    if (at != granted_.end()) at->second.lent = lent->on;
    if (lent->departed) granted_.erase(lent->slot);
  }
}

void Checkers::from_head(const HeadToAgent& message, Agent* to) {
  const auto row = [&](const std::string& table, const std::string& key) {
    const auto at = world_.disk().find({table, key});
    return at == world_.disk().end() ? nullptr : &at->second;
  };
  if (const auto* registered = std::get_if<RegisterReply>(&message)) {
    const auto* bytes = row("meta", "epoch");
    const auto epoch =
        bytes == nullptr
            ? Result<head::EpochRow>(failure(ErrorCode::not_found, "read epoch: no row"))
            : decode<head::EpochRow>(*bytes);
    if (!epoch || epoch->epoch < registered->head_epoch) {
      world_.violation("durable", "epoch " + std::to_string(registered->head_epoch) +
                                      " is in use and not on the disk");
    }
    return;
  }
  // A session resends old messages, although their subject may have ended since.
  const auto was_durable = [&](const std::string& table, const std::string& key) {
    return row(table, key) != nullptr || erased_.contains({table, key});
  };
  const auto* frame = std::get_if<HeadFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  if (std::holds_alternative<FactsRequest>(**frame->frame.message) && !news_lost_) {
    world_.violation("facts", "the head doubts what an agent has stated, though nothing was lost");
  }
  if (const auto* start = std::get_if<StartSlot>(&**frame->frame.message)) {
    if (start->actor.detached && !was_durable("actors", start->actor.actor.hex())) {
      world_.violation("durable", "detached actor " + start->actor.actor.brief() +
                                      " is started and not on the disk");
    }
    grant(*start, to);
  }
  if (const auto* relay = std::get_if<ToProcess>(&**frame->frame.message)) {
    const auto* started = std::get_if<StartJobReply>(&relay->message);
    if (const auto* group = std::get_if<GroupChanged>(&relay->message)) group_is_there(*group);
    if (const auto* recall = std::get_if<RecallSlot>(&relay->message))
      preemption_requested(*recall);
    if (started != nullptr && !was_durable("jobs", started->job.hex())) {
      world_.violation("durable",
                       "job " + started->job.brief() + " is started and not on the disk");
    }
  }
}

void Checkers::grant(const StartSlot& start, Agent* to) {
  if (to == nullptr || granted_.contains(start.slot)) return;  // a resent order
  if (!ever_granted_.insert(start.slot).second) return;
  // The head does not know yet that the agent is dead: no agent receives this order.
  if (!to->alive()) return;
  granted_[start.slot] = {to->node().id,
                          to->address().incarnation,
                          start.allocation,
                          start.demand_class.job,
                          !start.actor.actor.empty(),
                          false,
                          false,
                          false};
  if (drained_.contains(to->address().incarnation)) {
    world_.violation("drains", "slot " + start.slot.brief() + " starts on node" +
                                   std::to_string(to->node().index) + ", which is drained");
  }
  spares_devices(start);
  const bool named = !start.actor.name.empty();
  placed_[start.slot] = {named ? ActorId() : start.actor.actor, start.actor.actor.empty(),
                         to->node().id, start.allocation};
  where_it_may(start, *to);
  has_memory_for_contexts(start, to->node().plan.shape);
  within_quota(start);
  in_its_turn(start, to->node().plan);
  // The bundle reserved the node's CPUs when it was placed. Since then, tasks that had released
  // their CPU may have continued. No other resource is released.
  const bool in_bundle = !start.allocation.group.empty();
  if (in_bundle) in_its_bundle(start, to->node().id);
  count(to->node().id, in_bundle);
}

// Checks against the real labels of the node, not against the labels that the head received.
void Checkers::where_it_may(const StartSlot& start, Agent& to) {
  if (meets_selectors(start.demand_class.request, to.node().plan.shape.labels)) return;
  world_.violation("labels", "slot " + start.slot.brief() + " starts on node" +
                                 std::to_string(to.node().index) +
                                 ", whose labels meet none of its selectors");
}

bool meets_selectors(const Request& request, const Labels& labels) {
  const auto meets = [&](const Labels& selector) {
    for (const auto& [key, wanted] : selector) {
      const auto at = labels.find(key);
      const std::string has = at == labels.end() ? "" : at->second;
      const bool met = wanted.starts_with("in(") ? wanted.find(has) != std::string::npos
                       : wanted.starts_with('!') ? has != wanted.substr(1)
                                                 : has == wanted;
      if (!met) return false;
    }
    return true;
  };
  bool allowed = meets(request.label_selector);
  for (const auto& selector : request.fallback_selectors) allowed = allowed || meets(selector);
  return allowed;
}

// Checks against the real device memory: the user's amount plus the context of one process.
void Checkers::has_memory_for_contexts(const StartSlot& start, const NodeShape& shape) {
  const std::int64_t requested = start.demand_class.request.gpu_memory;
  const auto* held = start.allocation.find("GPU");
  const auto* gpus = shape.find("GPU");
  if (requested == 0 || held == nullptr || gpus == nullptr) return;
  for (const auto& share : held->shares) {
    if (share.index >= gpus->instances.size()) continue;  // counted as excess
    const auto needed = requested + gpus->instances[share.index].context_bytes;
    if (share.memory_bytes >= needed) continue;
    world_.violation("books", "slot " + start.slot.brief() + " holds " +
                                  std::to_string(share.memory_bytes) + " bytes of GPU " +
                                  std::to_string(share.index) + " and needs " +
                                  std::to_string(needed));
  }
}

void Checkers::in_its_bundle(const StartSlot& start, NodeId node) {
  const Allocation& allocation = start.allocation;
  const auto at = world_.disk().find({"groups", allocation.group.hex()});
  const std::string what =
      "slot " + start.slot.brief() + " in bundle " + std::to_string(allocation.bundle);
  const auto row = at == world_.disk().end()
                       ? Result<head::GroupRow>(failure(ErrorCode::not_found, "read group: no row"))
                       : decode<head::GroupRow>(at->second);
  if (!row) return world_.violation("groups", what + " starts, and its group is not on the disk");
  const auto index = static_cast<std::size_t>(allocation.bundle);
  if (index >= row->locations.size() || row->locations[index].node != node) {
    return world_.violation("groups", what + " starts where the disk has no place for it");
  }
  if (complete_groups_.insert(allocation.group).second &&
      std::ranges::any_of(row->locations, [](const auto& each) { return each.node.empty(); })) {
    return world_.violation("groups", what + " starts before all bundles have their places");
  }
  NodeShape bundle;
  for (const auto& resource : row->locations[index].allocation.resources) {
    ResourceShape shape{resource.name, {}};
    for (const auto& share : resource.shares) {
      if (shape.instances.size() <= share.index) shape.instances.resize(share.index + 1);
      shape.instances[share.index].total = share.amount;
      shape.instances[share.index].memory_bytes = share.memory_bytes;
    }
    bundle.resources.push_back(std::move(shape));
  }
  Used used;
  for (const auto& [slot, each] : granted_) {
    const bool same =
        each.allocation.group == allocation.group && each.allocation.bundle == allocation.bundle;
    if (same && each.node == node) add(used, each.allocation, each.lent);
  }
  const std::string over = excess(used, bundle);
  if (!over.empty()) world_.violation("groups", what + ": the bundle is granted " + over);
}

// Counts the head's allocations on a node, by the checker's own accounting.
void Checkers::count(NodeId node, bool without_cpu) {
  Used used;
  for (const auto& [slot, each] : granted_) {
    if (each.node == node) add(used, each.allocation, each.lent || without_cpu);
  }
  const Node* where = world_.node_of(node);
  const std::string over = excess(used, where->plan.shape);
  if (!over.empty())
    world_.violation("books", "node" + std::to_string(where->index) + " is granted " + over);
}

// Counts the resources of live processes. Blocked executors may have released their CPU.
void Checkers::count_physical(NodeId node) {
  const Node* where = world_.node_of(node);
  Used used;
  for (const Process* executor : where->executors) {
    if (!executor->departed()) add(used, executor->assignment().allocation, true);
  }
  const std::string over = excess(used, where->plan.shape);
  if (!over.empty())
    world_.violation("books", "executors of node" + std::to_string(where->index) + " hold " + over);
}

void Checkers::from_agent(Agent& agent, const AgentToHead& message) {
  const auto* frame = std::get_if<AgentFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  if (const auto* gone = std::get_if<SlotGone>(&*frame->frame.message)) {
    for (const Process* executor : agent.node().executors) {
      if (executor->slot() == gone->slot) {
        world_.violation("grants", agent.name() + " says slot " + gone->slot.brief() +
                                       " is gone while " + executor->name() + " lives");
      }
    }
    granted_.erase(gone->slot);
  }
}

void Checkers::agent_hears(Agent& agent, const HeadToAgent& message) {
  if (const auto* registered = std::get_if<RegisterReply>(&message)) {
    for (const SlotId slot : registered->unknown_slots) ever_granted_.insert(slot);
    return;
  }
  const auto* frame = std::get_if<HeadFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  if (const auto* start = std::get_if<StartSlot>(&**frame->frame.message)) {
    const auto at = granted_.find(start->slot);
    if (at != granted_.end() && at->second.incarnation == agent.address().incarnation)
      at->second.received = true;
  }
  slot_stops(agent, **frame->frame.message);
}

void Checkers::agent_ended(Agent& agent) {
  std::erase_if(granted_, [&](const auto& each) {
    return each.second.incarnation == agent.address().incarnation;
  });
}

void Checkers::head_stepped(const Head& head, std::uint64_t steps) {
  regroups();
  if (steps % 16 != 0) return;
  const auto verified = head.core().verify();
  if (!verified.ok()) world_.violation("books", verified.error().text);
  if (taken_back_.empty()) return;
  for (const auto& node : head.core().view().nodes) {
    if (node.state != head::NodeState::draining || !taken_back_.contains(node.incarnation))
      continue;
    world_.violation("drains", "node " + node.node.brief() + " was taken back and is draining");
  }
}

// ---- processes ---------------------------------------------------------------------------------

void Checkers::executor_forked(Agent& agent, const worker::StartExecutor& start) {
  if (!generations_.insert({start.slot, start.generation}).second) {
    world_.violation("grants", agent.name() + " starts generation " +
                                   std::to_string(start.generation) + " of slot " +
                                   start.slot.brief() + " twice");
  }
  if (!processes_.insert(start.assign.process).second) {
    world_.violation("grants", "two executors are called " + start.assign.process.brief());
  }
}

void Checkers::executor_started(Process& process) {
  for (const Process* other : process.node().executors) {
    if (other != &process && other->slot() == process.slot()) {
      world_.violation("grants", process.name() + " starts in slot " + process.slot().brief() +
                                     " while " + other->name() + " lives there");
    }
  }
  const ActorId actor = process.assignment().actor.actor;
  if (!actor.empty()) last_used_[actor] = world_.now();
  if (!actor.empty() && !peers_overlap_) {
    for (const Process* other : world_.processes()) {
      if (other != &process && other->alive() && !other->departed() &&
          other->assignment().actor.actor == actor) {
        world_.violation("grants", "two incarnations of actor " + actor.brief() +
                                       " live: " + other->name() + " and " + process.name());
      }
    }
  }
  count_physical(process.node().id);
}

void Checkers::process_ended(Process& process) {
  running_.erase(process.id());
  if (!process.is_driver()) dead_executors_.emplace(process.id(), world_.now());
  memory_process_ends(process);
}

}  // namespace mobula::internal::sim
