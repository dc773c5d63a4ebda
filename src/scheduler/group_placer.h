// Finds nodes for the bundles of one placement group, all or none, by its strategy:
//   STRICT_PACK    one node for all: of those into which they fit, the one with least to spare
//   PACK           the same if it can be; else the largest bundle first, each beside the others of
//                  the group where it fits, else on the node with least to spare
//   SPREAD         each on a node without others of the group while there are such, least used first
//   STRICT_SPREAD  each on a node of its own: a matching is found whenever there is one
// Where PACK or SPREAD shut themselves out by an early choice, others are tried, up to a number of
// steps: a small group on few nodes is placed whenever it can be.
// Bundles that have a place keep it, and count. The same view gives the same answer. Books what it
// found on the ledgers alone; the caller puts it into the slot books. Lives for one call.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "model/group.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

struct PlacedBundle {
  std::int32_t bundle = 0;
  NodeId node;
  Allocation allocation;
};

// What one bundle asks for.
struct BundleSite {
  Ask ask;
  Scarcest scarcest;  // of it
};

class GroupPlacer {
 public:
  // `sites` and `places` by bundle; a place without a node is to be found. `owner`: whose reservation
  // does not bar it.
  GroupPlacer(ClusterView& cluster, const std::vector<BundleSite>& sites,
              const std::vector<BundlePlace>& places, const ClassKey* owner = nullptr)
      : cluster_(cluster), sites_(sites), places_(places), owner_(owner) {}

  // Nothing, and nothing booked, if there is no way now.
  std::optional<std::vector<PlacedBundle>> place(GroupStrategy strategy);
  // Where it cannot be placed: the bundles left over when as many as are met on the way, largest first,
  // have found room; all of them for STRICT_PACK. Books nothing.
  std::vector<std::int32_t> left_over(GroupStrategy strategy);

 private:
  using Bundles = std::vector<std::int32_t>;
  static constexpr int most_steps = 1000;          // of a search
  static constexpr std::size_t most_homes = 16;    // looked at for each bundle of it

  Bundles largest_first() const;
  const BundleSite& site(std::int32_t bundle) const { return sites_[static_cast<std::size_t>(bundle)]; }
  bool put(Node& node, std::int32_t bundle);
  void undo(std::size_t down_to);
  bool put_all(Node& node, const Bundles& bundles);
  bool on_one_node(const Bundles& bundles);
  bool packed(const Bundles& bundles);
  bool spread(const Bundles& bundles);
  bool each_alone(const Bundles& bundles);
  bool searched(const Bundles& bundles);
  std::vector<NodeId> homes_for(std::int32_t bundle, std::size_t limit);
  template <class Visit>
  bool visit_tightest(const Scarcest& least, Visit&& visit);
  Scarcest least_for(const Bundles& bundles) const;

  ClusterView& cluster_;
  const std::vector<BundleSite>& sites_;
  const std::vector<BundlePlace>& places_;
  const ClassKey* owner_;
  std::map<NodeId, std::int64_t> used_;  // nodes with bundles of the group, and how many
  std::vector<PlacedBundle> placed_;
};

}  // namespace mobula::internal::scheduler
