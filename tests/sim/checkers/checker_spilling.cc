// Spilling: a mapped object is never moved out of memory, and no object leaves memory without a
// complete copy on disk.
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {

void Checkers::agent_stepped(Agent& agent) {
  is_whole(agent);
  home_serves(agent);
  if (world_.plan().store_bytes == 0) return;
  for (Process* process : world_.processes()) {
    if (process->attached_to(agent)) stays_in_place(agent, *process);
  }
  if (!lossy_) is_on_disk(agent);
}

void Checkers::stays_in_place(Agent& agent, Process& process) {
  for (const auto& [object, here] : agent.core().objects().objects()) {
    // A process that has released the object may not know yet that no other holder exists. A late
    // message from another node makes the object known again.
    if (!here.processes.contains(process.id())) continue;
    const auto* row = process.client().object(object);
    if (row == nullptr || row->storing) continue;
    const bool reads = row->readable && row->reading->location_fetch != 0;
    const bool wrote = row->written && !row->readable && row->ready && row->value->in_store;
    if (!reads && !wrote) continue;
    const bool there =
        here.has_location() && here.location.slab.bits().low == row->reading->location.slab &&
        here.location.offset == static_cast<std::uint64_t>(row->reading->location.offset);
    if (there) continue;
    world_.violation("spilling", process.name() + (reads ? " may read" : " returns to") +
                                     " object " + object.brief() +
                                     " at a location that is not valid any more: it is " +
                                     std::string(to_string(here.state)));
  }
}

void Checkers::is_on_disk(Agent& agent) {
  for (const auto& [object, here] : agent.core().objects().objects()) {
    if (here.state != ObjectState::spilled) continue;
    bool found = false;
    for (const auto& [file, contents] : agent.node().spilled) {
      for (const auto& [offset, content] : contents) found = found || content.object == object;
    }
    if (!found) {
      return world_.violation("spilling", agent.name() + " takes object " + object.brief() +
                                              " for spilled, and no file has it");
    }
  }
}

void Checkers::mapped_read_again(Process& process, ObjectId object, std::uint64_t number) {
  const Reading reading = process.read(object);
  if (!reading.error && reading.number == number) return;
  world_.violation("spilling", process.name() + " looks at object " + object.brief() +
                                   " and finds something else there than before");
}

}  // namespace mobula::internal::sim
