// Finds nodes for the bundles of one placement group, all or none, by its strategy. Placed bundles
// keep their node. The same view gives the same result. Allocates on the ledgers only; the caller
// updates the slot accounting.
// Thread: owner (lives for one call).
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "base/model/group.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

// Strategies:
//   - STRICT_PACK: one node for all bundles, the fitting one with the least spare capacity.
//   - PACK: the same if possible. Otherwise the largest bundle first, each next to other bundles of
//     the group if it fits, else on the node with the least spare capacity.
//   - SPREAD: each on a node without other bundles of the group while such nodes exist, the least
//     used first.
//   - STRICT_SPREAD: each on a different node; a matching is found whenever one exists.
// If an early choice of PACK or SPREAD excludes a later bundle, other choices are tried, up to a
// limit of steps. A small group on few nodes is thus placed whenever it can be.

struct PlacedBundle {
  std::int32_t bundle = 0;
  NodeId node;
  Allocation allocation;
};

// The request of one bundle.
struct BundleSite {
  RequestShape shape;
  Scarcest scarcest;  // scarcest resource of `shape`
};

class GroupPlacer {
 public:
  // `sites` and `locations` are indexed by bundle; a location without a node is searched.
  // `owner` is the class whose reservation does not exclude nodes.
  GroupPlacer(ClusterView& cluster, const std::vector<BundleSite>& sites,
              const std::vector<BundleLocation>& locations, const ClassKey* owner = nullptr)
      : cluster_(cluster), sites_(sites), locations_(locations), owner_(owner) {}

  // Empty, with nothing allocated, if the group cannot be placed now.
  std::optional<std::vector<PlacedBundle>> place(GroupStrategy strategy);
  // For a group that cannot be placed: the bundles without a node when the search, largest first,
  // had placed the most; all bundles for STRICT_PACK. Allocates nothing.
  std::vector<std::int32_t> left_over(GroupStrategy strategy);

 private:
  using Bundles = std::vector<std::int32_t>;
  static constexpr int most_steps = 1000;        // steps of one search
  static constexpr std::size_t most_homes = 16;  // nodes tried for each bundle

  Bundles largest_first() const;
  const BundleSite& site(std::int32_t bundle) const {
    return sites_[static_cast<std::size_t>(bundle)];
  }
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
  const std::vector<BundleLocation>& locations_;
  const ClassKey* owner_;
  std::map<NodeId, std::int64_t> used_;  // number of bundles of the group by node
  std::vector<PlacedBundle> placed_;
};

}  // namespace mobula::internal::scheduler
