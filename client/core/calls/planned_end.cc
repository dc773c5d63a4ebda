// Planned exit of a process that has submitted work: it exits when the work is finished, and the
// job owns its actors.
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_awaited("client.exits_after_what_it_has_submitted");

}  // namespace

bool ClientCore::has_unfinished() const {
  if (dispatcher_.compact().tasks() > 0 || objects_.writes() > 0) return true;
  const auto unfinished = [](const auto& each) { return each.second.state != TaskState::finished; };
  if (std::ranges::any_of(tasks_.all(), unfinished)) return true;
  return !std::ranges::all_of(
      actors_.all(), [](const auto& each) { return Actors::is_acknowledged(each.second); });
}

ClientCore::Unfinished ClientCore::unfinished() const {
  Unfinished work;
  work.calls = dispatcher_.compact().tasks() + objects_.writes();
  const auto add = [&](const std::string& name) {
    ++work.calls;
    if (work.example.empty()) work.example = name;
  };
  for (const auto& [id, task] : tasks_.all()) {
    if (task.state != TaskState::finished) add(task.call.form->name);
  }
  for (const auto& [id, actor] : actors_.all()) {
    if (!Actors::is_acknowledged(actor)) add(actor.spec.class_name);
  }
  return work;
}

// Slots are returned while this process lives: their executors may await calls as well, and would
// be terminated with it.
void ClientCore::conclude_submitted() {
  awaits_submitted_ = false;
  mark_awaited.hit();
  dispatcher_.return_all_slots();
  actors_.entrust();
  step_.emit(SubmittedDone{});
}

}  // namespace mobula::internal::client
