// Nodes, and bundles of placement groups, whose CPUs are given out twice, since a blocked task went on while
// others ran on what it had lent. Nothing new starts there, but a slot that is out goes on getting tasks of its
// lessee: where that has lasted a while, as many slots are asked back as the place is over, those given last
// first. Their running tasks end in peace. Not thread-safe: owned by one core.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "scheduler/recall.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

class Overdrafts {
 public:
  // A place has to be over its CPUs for `recall_after` before slots are asked back: idle ones come back of
  // their own accord.
  Overdrafts(const ClusterView& cluster, SlotBooks& books, Duration recall_after)
      : cluster_(cluster), books_(books), recall_after_(recall_after) {}

  // It has taken back what it had lent.
  void resumed(const Slot& slot);
  void run(Time now, std::vector<Recall>& out);
  // When `run` has something to do; a time that has passed for what it has not seen yet.
  std::optional<Time> due() const;

 private:
  // Books that are kept apart: a node's own, or those of a bundle.
  struct Place {
    NodeId node;
    GroupId group;  // empty: the node itself
    std::int32_t bundle = -1;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Below 0 where it is over; nothing: it is gone.
  std::optional<Quantity> free_cpus(const Place& place) const;
  void recall_in(const Place& place, Time now, std::vector<Recall>& out);

  const ClusterView& cluster_;
  SlotBooks& books_;
  Duration recall_after_;
  std::map<Place, std::optional<Time>> over_;  // and since when; nothing: since the next run
};

}  // namespace mobula::internal::scheduler
