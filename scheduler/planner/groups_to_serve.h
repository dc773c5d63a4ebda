// Launches nodes for one placement group at a time: tries them on a rehearsal, and keeps them only
// if the scheduler then places all of its bundles.
// Thread: owner (lives for one plan).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/planner/fleet.h"
#include "scheduler/planner/rehearsal.h"
#include "scheduler/planner/state.h"
#include "scheduler/planner/type_choice.h"

namespace mobula::internal::planner {

class GroupServer {
 public:
  GroupServer(Fleet& fleet, Rehearsal& stage) : fleet_(fleet), stage_(stage) {}

  // Places the group on present nodes, or launches nodes for it. Otherwise the group leaves the
  // rehearsal, unless bundles of it are placed, and the reason is returned.
  std::optional<Unserved> serve(const WantedGroup& group);

 private:
  bool on_one_node(const std::vector<Unit>& units);
  bool on_several(const WantedGroup& group, std::vector<Unit> units);
  // Removes the units that fit on present nodes.
  std::vector<Unit> beyond_capacity(const WantedGroup& group, const std::vector<Unit>& units) const;
  bool launch(const NodeType& type);
  void take_back();
  void drop_unused();
  Unserved refusal(const WantedGroup& group, const std::vector<Unit>& units) const;

  Fleet& fleet_;
  Rehearsal& stage_;
  GroupId group_;                 // group that is being served
  std::vector<NodeId> launched_;  // nodes launched for it
};

}  // namespace mobula::internal::planner
