// Preemption: only if it is enabled, only for a higher priority, and only tasks that may run again.
// Based on messages of the head and replies of executors.
#include <algorithm>

#include "protocol/codec/messages.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {

// Considers only the first recall of a slot: the beneficiary of a later one may differ.
void Checkers::preemption_requested(const RecallSlot& recall) {
  if (recall.running == RunningTask::finishes || !preempted_slots_.insert(recall.slot).second)
    return;
  if (preemptions_.empty() || world_.now() - preemptions_.back() > 1s)
    preemptions_.push_back(world_.now());
  const std::string what = "slot " + recall.slot.brief() + " is recalled for preemption";
  if (!world_.plan().preempt_delay) {
    return world_.violation("preemption", what + ", but preemption is off");
  }
  const auto slot = granted_.find(recall.slot);
  if (slot == granted_.end()) return;  // its agent has reported that the slot is gone
  if (slot->second.actor) return world_.violation("preemption", what + ", and has an actor");
  const auto* theirs = terms_of(slot->second.job);
  if (theirs == nullptr) return;
  const auto comes_before = [&](JobId job) {
    const auto* terms = terms_of(job);
    return terms != nullptr && terms->priority > theirs->priority;
  };
  const Node* node = world_.node_of(slot->second.node);
  const auto may_run_there = [&](const Request& request) {
    return node == nullptr || meets_selectors(request, node->plan.shape.labels);
  };
  const bool helps = std::ranges::any_of(demands_,
                                         [&](const auto& each) {
                                           const auto& wanted = each.second.demand_class;
                                           return each.second.wanted_slots > 0 &&
                                                  comes_before(wanted.job) &&
                                                  may_run_there(wanted.request) &&
                                                  may_hold(wanted.job, wanted.request.resources);
                                         }) ||
                     std::ranges::any_of(groups_wanted_, [&](const auto& each) {
                       const auto& [id, spec] = each;
                       return !groups_served_.contains(id) && comes_before(spec.job) &&
                              std::ranges::any_of(spec.bundles, may_run_there);
                     });
  if (!helps)
    world_.violation("preemption",
                     what + ", and nothing of a higher priority waits that it would help");
}

// No user cancels a task in these histories: a task reported as cancelled was preempted.
void Checkers::run_was_ended(const Process& process, const CallReply& reply) {
  if (!world_.plan().preempt_delay) return;
  const auto at = tasks_.find(reply.task);
  if (at == tasks_.end()) return;
  auto& mark = at->second;
  mark.ended_for_others.insert({process.id(), reply.attempt});
  if (mark.max_retries < 0) return;
  const auto own = static_cast<std::int32_t>(mark.runs.size() - mark.ended_for_others.size());
  if (mark.max_retries == 0 || (own >= mark.max_retries && !lossy_)) {
    world_.violation("preemption", "task " + reply.task.brief() + ", which may run again " +
                                       std::to_string(mark.max_retries) +
                                       " times and has done so " + std::to_string(own) +
                                       " times, is ended for others");
  }
}

}  // namespace mobula::internal::sim
