// Readers at the home of an object: each wait ends with bytes, a failure, or a recomputation of the
// bytes.
#include "sim/agent_role.h"
#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {
namespace {

// Exceeds the longest pause of a process or an agent, after which it still handles the report of a
// loss.
constexpr Duration stranded_timeout = 20s;

}  // namespace

void Checkers::home_serves(Agent& agent) {
  std::set<ObjectId> stranded;
  for (const auto& [object, owner] : agent.core().awaited_without_bytes()) {
    Process* maker = world_.process_of(owner);
    const auto* row = maker != nullptr && maker->alive() ? maker->client().object(object) : nullptr;
    // The owner stores bytes that are in its own memory.
    if (row != nullptr && (!row->ready || row->storing)) continue;
    stranded.insert(object);
  }
  auto& since = stranded_[agent.number()];
  std::erase_if(since, [&](const auto& each) { return !stranded.contains(each.first); });
  for (const ObjectId object : stranded) {
    const Time first = since.try_emplace(object, world_.now()).first->second;
    if (world_.now() - first < stranded_timeout) continue;
    return world_.violation("homes",
                            "readers wait at " + agent.name() + " for object " + object.brief() +
                                ", of which no bytes, no failure and no computation exist");
  }
}

// Records a leaf task whose arguments can all be recomputed by its submitter.
void Checkers::note_recomputable(const CallRecord& call, const Plan& plan) {
  bool all = call.form->kind == CallKind::task && plan.max_retries < 0 && plan.steps.empty() &&
             plan.tensors == 0 && !plan.return_refs;
  for (const auto& argument : *call.arguments) {
    all = all && (argument.is_ref ? recomputable_.contains(argument.ref.object)
                                  : argument.value.contained.empty());
  }
  if (all) recomputable_.insert(result_id(call.task, 0));
}

}  // namespace mobula::internal::sim
