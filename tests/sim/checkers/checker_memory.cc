// Kills for lack of memory: the node is short, tasks that may run again are killed first, one
// executor is killed at a time, and a kill does happen. Based on the memory that user code takes on
// each node and on the exit times of executors.
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

constexpr std::int64_t least_mib = 16;                 // smaller executors are not worth a kill
constexpr Duration known_delay = Duration(200ms);      // delay until the agent knows a running call
constexpr Duration served_timeout = Duration(1300ms);  // pause after another kill, plus one sample
constexpr Duration memory_return_delay = Duration(500ms);
constexpr Duration gone_timeout = Duration(5s);

}  // namespace

const Checkers::InMemory* Checkers::runs_in(const Process& process) const {
  const auto at = in_memory_.find(process.id());
  return at == in_memory_.end() ? nullptr : &at->second;
}

void Checkers::memory_call_starts(const Process& process, const CallRecord& call) {
  const auto& plan = world_.plan().plans.at(call.form->function.offset);
  in_memory_[process.id()] = {call.task, plan.max_retries == 0, plan.max_retries < 0, world_.now()};
  const auto ended = ended_for_memory_.find(call.task);
  if (ended == ended_for_memory_.end() || lossy_) return;
  if (world_.now() - ended->second < memory_return_delay) {
    world_.violation("memory", "task " + call.form->name +
                                   " was ended for lack of memory and runs again at once");
  }
}

void Checkers::memory_process_ends(const Process& process) {
  for (auto& [node, memory] : memory_) {
    if (memory.ending != process.id()) continue;
    memory.ending = {};
    memory.gone_at = world_.now();
    if (const auto* call = runs_in(process)) ended_for_memory_[call->task] = world_.now();
  }
  in_memory_.erase(process.id());
}

void Checkers::memory_sampled(Agent& agent, std::int64_t used_mib, std::int64_t limit_mib) {
  NodeMemory& memory = memory_[agent.node().id];
  memory.used_mib = used_mib;
  memory.limit_mib = limit_mib;
  if (used_mib * 1000 <= limit_mib * 950) return memory.short_since.reset();
  bool could_end = false;
  for (const Process* executor : agent.node().executors) {
    const auto* call = runs_in(*executor);
    could_end |= call != nullptr && call->endless &&
                 executor->memory_mib(world_.now()) >= least_mib &&
                 world_.now() - call->since > known_delay;
  }
  if (!could_end || !memory.short_since) memory.short_since = world_.now();
  const Time since = std::max(*memory.short_since, memory.last_end.value_or(*memory.short_since));
  if (!lossy_ && world_.now() - since > served_timeout) {
    world_.violation("memory", agent.name() + " has " + std::to_string(used_mib) + " of " +
                                   std::to_string(limit_mib) +
                                   " MiB in use and ends nothing that could be");
  }
}

void Checkers::ended_for_memory(Agent& agent, const worker::KillExecutor& kill) {
  NodeMemory& memory = memory_[agent.node().id];
  const std::string what =
      "slot " + kill.slot.brief() + " of " + agent.name() + " is ended for memory";
  if (memory.used_mib * 1000 <= memory.limit_mib * 950) {
    return world_.violation("memory",
                            what + " with " + std::to_string(memory.used_mib) + " MiB in use");
  }
  const bool late = memory.last_end && world_.now() - *memory.last_end >= gone_timeout;
  if (!memory.ending.empty() && !late) {
    return world_.violation("memory", what + " while another still ends");
  }
  if (memory.gone_at && world_.now() - *memory.gone_at < memory_return_delay) {
    return world_.violation("memory", what + " before the memory of another can be back");
  }
  const Process* ended = nullptr;
  bool others_may = false;  // another executor could be killed, and its task run again
  for (const Process* executor : agent.node().executors) {
    const bool it = executor->slot() == kill.slot && executor->generation() == kill.generation;
    if (it) ended = executor;
    const auto* call = runs_in(*executor);
    others_may |= !it && call != nullptr && call->endless &&
                  executor->memory_mib(world_.now()) >= least_mib &&
                  world_.now() - call->since > known_delay;
  }
  memory.last_end = world_.now();
  if (ended == nullptr) return;  // the executor exited by itself
  memory.ending = ended->id();
  const auto* call = runs_in(*ended);
  const bool known = call != nullptr && world_.now() - call->since > known_delay;
  if (!known || !call->once || peers_overlap_) return;
  if (others_may) world_.violation("memory", what + ", runs once, and others could have been");
  if (memory.used_mib * 1000 <= memory.limit_mib * 980) {
    world_.violation("memory", what + ", runs once, and there is memory left");
  }
}

}  // namespace mobula::internal::sim
