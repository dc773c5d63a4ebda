// Shapes of waiting requests: the properties that decide the possible nodes, stored once for all
// classes that share them. Each row caches the feasibility of the shape, and the stamp up
// to which freed nodes were examined and do not fit.
// Thread: owner (one core).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/model/request.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

struct ShapeRow {
  RequestShape shape;
  std::vector<RequestShape>
      choices{};  // shapes with one selector each, if there are several selectors
  std::string text;
  std::uint64_t number = 0;
  Scarcest scarcest;
  std::uint32_t resource = 0;  // number of the scarcest resource
  std::size_t classes = 0;
  ResourceSet most_held;  // by one slot of this shape
  std::set<ClassKey> waiting{};
  std::size_t in_lines = 0;            // number of those classes in queues that sweeps walk for it
  std::uint64_t examined_through = 0;  // no node freed up to this stamp fits; 0: unknown
  std::uint64_t examined_in = 0;       // last sweep that searched a bundle of its group
  std::uint64_t checked_version = 0;   // version of the cluster at which `feasible` was computed
  bool feasible = false;
  NodeId feasible_on{};

  // True if the shape requires one certain node, dead or alive.
  bool is_pinned() const { return shape.wanted_node && !shape.wanted_softly; }
};

class RequestShapes {
 public:
  explicit RequestShapes(const ClusterView& cluster) : cluster_(cluster) {}

  // Adds or removes a class with this shape. A row keeps its address while classes share it.
  ShapeRow& join(const Request& request, ProgramId program, Tenant tenant,
                 const std::vector<NodeId>& callers);
  void leave(ShapeRow& row);
  void waits(ShapeRow& row, const ClassKey& key);
  void waits_no_more(ShapeRow& row, const ClassKey& key);
  // A class with this shape enters or leaves the queues that sweeps walk. Nodes freed while no such
  // class was queued are unexamined.
  void enters_line(ShapeRow& row);
  void leaves_line(ShapeRow& row) { --row.in_lines; }

  // Returns true if any present node could serve the shape when empty. Cached until nodes change.
  bool feasible(ShapeRow& row) const;
  bool is_known_feasible(const ShapeRow& row) const {
    return row.feasible && row.checked_version == cluster_.version();
  }
  // Calls `visit` for each waiting row with a soft affinity, because its node may have left.
  template <class Visit>
  void for_each_soft(Visit&& visit) {
    for (auto* row : soft_rows()) visit(*row);
  }
  // Rows that wait for a bundle of the group.
  std::vector<std::uint64_t> of_group(GroupId group) const;
  ShapeRow* find(std::uint64_t number);
  // Resources have small numbers, because comparison of names is slow.
  const std::string& resource_name(std::uint32_t number) const { return resource_names_[number]; }
  const std::map<std::uint64_t, ShapeRow>& rows() const { return rows_; }

 private:
  bool find_server(ShapeRow& row) const;
  std::vector<ShapeRow*> soft_rows();
  std::uint32_t resource_number(const std::string& name);

  const ClusterView& cluster_;
  std::map<std::string, std::uint32_t> resource_numbers_;
  // by number; never shrinks, because users name few resources
  std::vector<std::string> resource_names_;
  std::map<std::uint64_t, ShapeRow> rows_;
  std::map<std::string, std::uint64_t> by_text_;
  std::set<std::uint64_t> soft_;  // like by_group_, only waiting rows
  std::map<GroupId, std::set<std::uint64_t>> by_group_;
  std::uint64_t last_number_ = 0;
};

}  // namespace mobula::internal::scheduler
