// Replicas of this node that the head knows, so that it can name them after the death of their
// home. Changes are reported together, after `copies_delay`.
// Thread: owner (Objects).
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "base/containers/table.h"
#include "worker/core/objects/object_context.h"

namespace mobula::internal::worker {

class ReplicaReports {
 public:
  explicit ReplicaReports(ObjectContext& context) : context_(context) {}

  void add(ObjectId object) {
    if (reported_.insert(object, true).second) change(object, added_, removed_);
  }
  void remove(ObjectId object) {
    if (reported_.erase(object)) change(object, removed_, added_);
  }
  // A session with the head begins: `present` are all reported replicas.
  void restate(std::vector<ObjectId> present);
  void tick();

  bool contains(ObjectId object) const { return reported_.contains(object); }
  std::optional<Time> next_deadline() const { return report_at_; }

 private:
  void change(ObjectId object, std::set<ObjectId>& changed, std::set<ObjectId>& other);

  ObjectContext& context_;
  Table<ObjectId, bool> reported_;
  std::set<ObjectId> added_, removed_;  // since the last report
  std::optional<Time> report_at_;
};

}  // namespace mobula::internal::worker
