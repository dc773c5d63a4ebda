#include "worker/core/objects/entrusted_actors.h"

#include <utility>

namespace mobula::internal::worker {

void EntrustedActors::entrust(ObjectId object, ProcessId process, ActorId actor) {
  const ProcessRow* owner = context_.processes.find(process);
  if (owner == nullptr || !objects_.insert(object, actor).second) return;
  report({actor, owner->principal.job, true});
}

void EntrustedActors::erase(ObjectId object) {
  const ActorId* actor = objects_.find(object);
  if (actor == nullptr) return;
  const auto known = actors_.find(*actor);
  objects_.erase(object);
  if (known != actors_.end()) report({known->first, known->second.job, false});
}

// Without a head, this is stated with the facts at the start of the next session.
void EntrustedActors::report(EntrustedActor news) {
  actors_.insert_or_assign(news.actor, news);
  if (!news.held) unheld_.push_back(news.actor);
  if (unheld_.size() > max_unheld) {
    actors_.erase(unheld_.front());
    unheld_.pop_front();
  }
  ObjectCopies message;
  message.entrusted.push_back(std::move(news));
  context_.head.tell(std::move(message));
}

void EntrustedActors::job_ended(JobId job) {
  std::erase_if(actors_, [job](const auto& each) { return each.second.job == job; });
}

std::vector<EntrustedActor> EntrustedActors::all() const {
  std::vector<EntrustedActor> out;
  for (const auto& [actor, each] : actors_) out.push_back(each);
  return out;
}

}  // namespace mobula::internal::worker
