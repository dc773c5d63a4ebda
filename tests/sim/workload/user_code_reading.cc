// How threads of user code wait for, read, and map objects.
#include <algorithm>

#include "sim/process_role.h"
#include "sim/workload/user_code.h"

namespace mobula::internal::sim {

void Thread::want(ObjectId object) {
  wanted_.push_back(object);
  process_.step_client(client::WantObject{object});
  process_.subscribe(object);
}

void Thread::unwant(ObjectId object) {
  const auto at = std::ranges::find(wanted_, object);
  if (at == wanted_.end()) return;
  wanted_.erase(at);
  process_.unsubscribe(object);
  process_.step_client(client::UnwantObject{object});
}

// Values that user code has mapped must be unchanged.
void Thread::read_mapped_again() {
  for (const auto& [object, number] : std::exchange(mapped_reads_, {})) {
    process_.outside().checkers().mapped_read_again(process_, object, number);
  }
}

bool Thread::get(ObjectId object, bool mixes, bool tolerant) {
  if (object.empty()) return true;
  if (!std::exchange(began_, true)) want(object);
  if (!process_.client().settled(object)) {
    block([this, object] { return cancelled_ || process_.client().settled(object); }, true);
    return false;
  }
  Reading reading = process_.read(object);
  process_.outside().checkers().value_read(process_, object, reading);
  for (const auto& ref : reading.contained) {
    process_.step_client(client::AdoptRef{ref});
    leases_.push_back(ref.object);
  }
  if (reading.error) {
    if (!tolerant) fail(std::move(*reading.error));
  } else if (mixes) {
    read_ = mixed(read_, reading.number);
  }
  return true;
}

bool Thread::get_each(const RefRecords& refs, bool mixes) {
  for (; inner_ < refs.size(); ++inner_) {
    if (!refs[inner_].actor.empty()) continue;
    if (!get(refs[inner_].object, mixes, !mixes)) {
      if (cancelled_) return true;
      return false;
    }
    unwant(refs[inner_].object);
    began_ = false;
  }
  return true;
}

// The head decides which actor has the name. Waits for its reply.
bool Thread::get_or_make(const Step& step) {
  if (!std::exchange(began_, true)) make_actor(step);
  Var& var = vars_.back();
  const ActorId actor = var.actor;
  const auto answered = [this, actor] {
    const auto* row = process_.client().actor(actor);
    return cancelled_ || row == nullptr || row->version > 0 ||
           process_.found_instead().at(actor).has_value();
  };
  if (!answered()) {
    block(answered, true);
    return false;
  }
  const auto found = process_.found_instead().extract(actor).mapped();
  if (!found || !found->found || found->actor == actor) return true;
  var = {handle_id(found->actor), found->actor, {}};
  process_.step_client(client::ReleaseRef{handle_id(actor)});
  return true;
}

bool Thread::wait_any(const Step& step) {
  std::vector<ObjectId> objects;
  for (const int var : step.vars) objects.push_back(vars_.at(static_cast<std::size_t>(var)).object);
  if (!std::exchange(began_, true)) {
    for (const ObjectId object : objects) want(object);
  }
  const auto ready = [this, objects] {
    return cancelled_ || std::ranges::any_of(objects, [&](ObjectId each) {
             return process_.client().settled(each);
           });
  };
  if (ready()) {
    for (const ObjectId object : objects) unwant(object);
    return true;
  }
  block(ready, true);
  return false;
}

}  // namespace mobula::internal::sim
