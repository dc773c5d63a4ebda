// Tensors whose elements stay where they were made: they are freed when nobody refers to them, not before.
#include <algorithm>

#include "sim/agent_role.h"
#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {

void Checkers::tensor_freed(Process& holder, ObjectId tensor) {
  if (lossy_) return;
  // With its driver, which has let go of everything by then, the job ends, and all holds of it.
  const bool job_goes_on = std::ranges::any_of(world_.processes(), [&](const Process* each) {
    return each->is_driver() && each->alive() && each->job() == holder.job() && !each->client().empty();
  });
  if (!job_goes_on) return;
  for (const Process* each : world_.processes()) {
    if (!each->alive() || each == &holder) continue;
    const auto* row = each->client().object(tensor);
    if (row == nullptr || (row->refs == 0 && row->pins == 0)) continue;
    return world_.violation("tensors", holder.name() + " frees elements " + tensor.brief() + " that " + each->name() +
                                           " refers to");
  }
}

void Checkers::elements_there(Process& executor, const executor::RunCall& run, bool fetched) {
  if (fetched) return;
  for (const auto& argument : *run.call.arguments) {
    if (argument.is_ref) continue;
    for (const auto& ref : argument.value.contained) {
      if (ref.tensor.is_empty()) continue;
      return world_.violation("tensors", executor.name() + " starts " + run.call.form->name + " without the elements " +
                                             ref.object.brief() + " of its argument");
    }
  }
}

// A planned end of an executor of tasks: what others of a job that goes on refer to is stored first.
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
      return world_.violation("tensors", holder.name() + " ends with elements " + tensor.brief() + " that " + each->name() +
                                             " refers to");
    }
  }
}

// A slot that is kept for its results is given back only where somebody wants it.
void Checkers::slot_stops(Agent& agent, const HeadMessage& message) {
  const auto* relay = std::get_if<ToProcess>(&message);
  const auto* recall = relay ? std::get_if<RecallSlot>(&relay->message) : nullptr;
  if (recall != nullptr) wanted_slots_.insert(recall->slot);
  const auto* stop = std::get_if<StopSlot>(&message);
  if (stop == nullptr || lossy_ || stop->why != "returned by its lessee" || wanted_slots_.contains(stop->slot)) return;
  for (const Process* executor : agent.node().executors) {
    if (executor->slot() != stop->slot || executor->held().empty()) continue;
    world_.violation("tensors", "slot " + stop->slot.brief() + " of " + agent.name() +
                                    " is given back with results, and nobody wants its room");
  }
}

}  // namespace mobula::internal::sim
