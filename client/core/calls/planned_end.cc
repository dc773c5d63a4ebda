// Planned exit of a process that has submitted work: it exits when the work is finished, and the
// job owns its actors.
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_awaited("client.exits_after_what_it_has_submitted");
const CoverageMark mark_entrusted("client.actor_entrusted_to_its_job");

}  // namespace

// Until the head acknowledges an actor, the request for it may be lost with a connection.
bool ClientCore::is_acknowledged(const ActorRow& actor) {
  return !actor.owned || actor.state == ActorState::dead || actor.version > 0;
}

bool ClientCore::has_unfinished() const {
  if (backlog_.tasks() > 0 || !writes_.empty()) return true;
  const auto unfinished = [](const auto& each) { return each.second.state != TaskState::finished; };
  if (std::ranges::any_of(tasks_, unfinished)) return true;
  return !std::ranges::all_of(actors_,
                              [](const auto& each) { return is_acknowledged(each.second); });
}

ClientCore::Unfinished ClientCore::unfinished() const {
  Unfinished work;
  work.calls = backlog_.tasks() + writes_.size();
  const auto add = [&](const std::string& name) {
    ++work.calls;
    if (work.example.empty()) work.example = name;
  };
  for (const auto& [id, task] : tasks_) {
    if (task.state != TaskState::finished) add(task.call.form->name);
  }
  for (const auto& [id, actor] : actors_) {
    if (!is_acknowledged(actor)) add(actor.spec.class_name);
  }
  return work;
}

// Slots are returned while this process lives: their executors may await calls as well, and would
// be terminated with it.
void ClientCore::conclude_submitted() {
  awaits_submitted_ = false;
  mark_awaited.hit();
  std::vector<SlotId> slots;
  for (const auto& [slot, row] : slots_) slots.push_back(slot);
  for (const SlotId slot : slots) return_slot(slot);
  entrust_actors();
  step_.emit(SubmittedDone{});
}

// Handles in other processes keep an actor alive, even without its owner.
void ClientCore::entrust_actors() {
  for (const auto& [actor, row] : actors_) {
    if (!row.owned || row.detached || row.state == ActorState::dead) continue;
    const auto* handle = objects_.find(handle_id(actor));
    if (handle != nullptr && handle->exported) {
      mark_entrusted.hit();
      step_.send_to_agent(ExportObject{handle_id(actor), false, actor});
    } else {
      end_actor(EndActor{actor, false, true, "its last handle is gone"});
    }
  }
}

}  // namespace mobula::internal::client
