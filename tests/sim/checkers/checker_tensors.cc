// Tensors whose elements stay in their producer: they are freed when the last ref is gone, and not
// before.
#include <algorithm>

#include "sim/agent_role.h"
#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {

void Checkers::tensor_freed(Process& holder, ObjectId tensor) {
  if (lossy_) return;
  // The job and all its holds end with its driver, which has released all its refs by then.
  const bool job_goes_on = std::ranges::any_of(world_.processes(), [&](const Process* each) {
    return each->is_driver() && each->alive() && each->job() == holder.job() &&
           !each->client().empty();
  });
  if (!job_goes_on) return;
  for (const Process* each : world_.processes()) {
    if (!each->alive() || each == &holder) continue;
    const auto* row = each->client().object(tensor);
    if (row == nullptr || (row->refs == 0 && row->pins == 0)) continue;
    return world_.violation("tensors", holder.name() + " frees elements " + tensor.brief() +
                                           " that " + each->name() + " refers to");
  }
}

void Checkers::elements_there(Process& executor, const executor::RunCall& run, bool fetched) {
  // Real executors do not borrow these tensors: the caller refers to them while it waits.
  const Process* caller = world_.process_of(run.caller);
  const auto is_referred_to = [&](ObjectId tensor) {
    const auto* row =
        caller != nullptr && caller->alive() ? caller->client().object(tensor) : nullptr;
    return row != nullptr && (row->refs > 0 || row->pins > 0);
  };
  for (const auto& argument : *run.call.arguments) {
    for (const auto& ref : argument.value.contained) {
      if (ref.tensor.is_empty() || ref.owner != executor.id() || !is_referred_to(ref.object))
        continue;
      if (std::ranges::find(executor.held(), ref.object) != executor.held().end()) continue;
      return world_.violation("tensors", executor.name() + " starts " + run.call.form->name +
                                             " and has freed its own elements " +
                                             ref.object.brief() + " in its argument");
    }
  }
  if (fetched) return;
  for (const auto& argument : *run.call.arguments) {
    if (argument.is_ref) continue;
    for (const auto& ref : argument.value.contained) {
      if (ref.tensor.is_empty()) continue;
      return world_.violation("tensors", executor.name() + " starts " + run.call.form->name +
                                             " without the elements " + ref.object.brief() +
                                             ", which an argument refers to");
    }
  }
}

// At a planned exit of a task executor, elements that other processes of a running job refer to are
// stored first.
void Checkers::leaves_with(Process& holder, const std::vector<ObjectId>& tensors) {
  if (lossy_ || !holder.assignment().actor.actor.empty()) return;
  const auto processes = world_.processes();
  const bool goes_on = std::ranges::any_of(processes, [&](const Process* each) {
    return each->is_driver() && !each->finished() && each->job() == holder.job();
  });
  if (!goes_on) return;
  for (const ObjectId tensor : tensors) {
    for (const Process* each : processes) {
      if (!each->alive() || each == &holder) continue;
      const auto* row = each->client().object(tensor);
      if (row == nullptr || (row->refs == 0 && row->pins == 0)) continue;
      return world_.violation("tensors", holder.name() + " ends with elements " + tensor.brief() +
                                             " that " + each->name() + " refers to");
    }
  }
}

// ---- elements that are lost with their process --------------------------------------------------

void Checkers::made_with_elements(ProcessId caller, const CallReply& reply) {
  for (const auto& value : reply.results) {
    for (const auto& ref : value.contained) {
      if (!ref.tensor.is_empty() && !value.in_store) made_by_[ref.object] = {reply.task, caller};
    }
  }
}

// The owner of a value with these elements can recompute them if the producing task may run again.
void Checkers::reply_comes(Process& caller, const ExecutorFrame& frame) {
  const auto* reply = frame.message ? std::get_if<CallReply>(&*frame.message) : nullptr;
  if (reply == nullptr || reply->lost.empty()) return;
  auto& makers = could_be_remade_[result_id(reply->task, 0)];
  makers.clear();
  for (const ObjectId elements : reply->lost) {
    const auto at = made_by_.find(elements);
    if (at == made_by_.end() || at->second.caller != caller.id()) return makers.clear();
    const TaskMark& mark = tasks_.at(at->second.task);
    std::uint32_t attempts = 0;
    for (const auto& [process, attempt] : mark.runs) attempts = std::max(attempts, attempt);
    const auto* row = caller.client().object(mark.result);
    const bool is_here = row != nullptr && row->owned && row->ready && !row->value->in_store &&
                         !row->storing && !row->lineage_given_up &&
                         std::ranges::any_of(row->value->contained, [&](const RefRecord& ref) {
                           return ref.object == elements;
                         });
    const bool may_run =
        mark.max_retries < 0 || attempts < static_cast<std::uint32_t>(mark.max_retries);
    if (!is_here || !may_run) return makers.clear();
    makers.emplace_back(at->second.task, mark.runs.size());
  }
}

void Checkers::reads_that_elements_are_lost(const Process& process, ObjectId object) {
  const auto at = could_be_remade_.find(object);
  if (at == could_be_remade_.end() || streams_lose_) return;
  for (const auto& [task, runs] : at->second) {
    if (tasks_.at(task).runs.size() > runs) continue;
    return world_.violation("tensors", process.name() + " reads of " + object.brief() +
                                           " that elements are lost, and task " + task.brief() +
                                           " could have made them again");
  }
}

// A resident slot is returned only after a recall, or when its lessee exits as planned.
void Checkers::slot_stops(Agent& agent, const HeadMessage& message) {
  const auto* relay = std::get_if<ToProcess>(&message);
  const auto* recall = relay ? std::get_if<RecallSlot>(&relay->message) : nullptr;
  if (recall != nullptr) wanted_slots_.insert(recall->slot);
  if (const auto* start = std::get_if<StartSlot>(&message)) lessees_[start->slot] = start->lessee;
  const auto* stop = std::get_if<StopSlot>(&message);
  const auto granted = stop == nullptr ? granted_.end() : granted_.find(stop->slot);
  if (granted != granted_.end()) granted->second.stops = true;
  if (stop == nullptr || lossy_ || stop->why != "returned by its lessee" ||
      wanted_slots_.contains(stop->slot))
    return;
  const auto lessee = lessees_.find(stop->slot);
  const Process* holder = lessee == lessees_.end() ? nullptr : world_.process_of(lessee->second);
  if (holder == nullptr || !holder->alive() || holder->exits()) return;
  for (const Process* executor : agent.node().executors) {
    if (executor->slot() != stop->slot || executor->held().empty()) continue;
    world_.violation("tensors",
                     "slot " + stop->slot.brief() + " of " + agent.name() +
                         " is returned with results, and no demand waits for its capacity");
  }
}

}  // namespace mobula::internal::sim
