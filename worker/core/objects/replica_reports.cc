#include "worker/core/objects/replica_reports.h"

#include <utility>

namespace mobula::internal::worker {

void ReplicaReports::change(ObjectId object, std::set<ObjectId>& changed,
                            std::set<ObjectId>& other) {
  if (other.erase(object) == 0) changed.insert(object);
  if (!report_at_) report_at_ = context_.now() + context_.options.copies_delay;
}

void ReplicaReports::tick() {
  if (!report_at_ || *report_at_ > context_.now()) return;
  report_at_.reset();
  if (added_.empty() && removed_.empty()) return;
  context_.head.tell(
      ObjectCopies{{added_.begin(), added_.end()}, {removed_.begin(), removed_.end()}});
  added_.clear();
  removed_.clear();
}

void ReplicaReports::restate(std::vector<ObjectId> present) {
  added_.clear();
  removed_.clear();
  report_at_.reset();
  if (present.empty()) return;
  ObjectCopies copies;
  copies.added = std::move(present);
  context_.head.tell(std::move(copies));
}

}  // namespace mobula::internal::worker
