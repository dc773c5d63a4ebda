// Actors of this node's processes that belong to their jobs: the head keeps them while any handle
// exists. The last released actors are stated until their jobs end.
// Thread: owner (Objects).
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "base/containers/table.h"
#include "worker/core/objects/object_context.h"

namespace mobula::internal::worker {

class EntrustedActors {
 public:
  explicit EntrustedActors(ObjectContext& context) : context_(context) {}

  // `object`: the handles of the actor, owned by `process`.
  void entrust(ObjectId object, ProcessId process, ActorId actor);
  // The last hold of the object has ended.
  void erase(ObjectId object);
  void job_ended(JobId job);

  bool contains(ObjectId object) const { return objects_.contains(object); }
  std::vector<EntrustedActor> all() const;

 private:
  static constexpr std::size_t max_unheld = 1024;

  void report(EntrustedActor news);

  ObjectContext& context_;
  Table<ObjectId, ActorId> objects_;
  std::map<ActorId, EntrustedActor> actors_;
  std::deque<ActorId> unheld_;  // recently released actors
};

}  // namespace mobula::internal::worker
