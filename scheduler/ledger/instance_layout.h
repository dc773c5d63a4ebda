// The resources of a node in the form of its ledger: by name and instance, with limits on
// executors. Nodes with equal resources share one layout.
// Thread: owner (plain values).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/model/node_shape.h"

namespace mobula::internal::scheduler {

struct InstanceLayout {
  struct Instance {
    Quantity total;
    std::int64_t memory = 0;
    std::int64_t context = 0;  // bytes accounted for the context of each allocation of bytes
    std::vector<std::string> types;
    std::int32_t island = -1;
    friend auto operator<=>(const Instance&, const Instance&) = default;
  };
  struct Resource {
    std::string name;
    Quantity total;
    std::vector<Instance> instances;
    bool units = false;  // one instance per unit, also for custom resources
    std::size_t amount_at =
        0;  // index of its total in ledgers, followed by the remainder of each instance
    friend auto operator<=>(const Resource&, const Resource&) = default;
  };

  explicit InstanceLayout(const NodeShape& shape);
  // The part of such a node that `share` holds, under the same indices.
  InstanceLayout(const InstanceLayout& node, const Allocation& share);

  std::vector<Resource> resources;          // ordered by name, without accelerator types
  std::size_t amounts = 0;                  // number of amounts in a ledger
  std::vector<std::string> types;           // types of the node or of one of its devices, in order
  std::vector<std::string> node_types;      // types of the node as a whole
  std::vector<std::string> resource_types;  // types that it lists as resources
  std::vector<std::size_t> packed;          // indices of the resources that packing counts
  std::int32_t task_executors = 0, actor_executors = 0;
  bool has_devices = false;
  std::int32_t cpu = -1;  // its index in `resources`; -1: none
  const Resource* of_cpu() const {
    return cpu < 0 ? nullptr : &resources[static_cast<std::size_t>(cpu)];
  }
  friend auto operator<=>(const InstanceLayout&, const InstanceLayout&) = default;

 private:
  void add(Resource resource);
  void number();
};

// Shared, because any of its ledgers may be the last.
using SharedLayout = std::shared_ptr<const InstanceLayout>;

// Interns layouts, so that equal nodes share one.
// Thread: owner.
class LayoutTable {
 public:
  SharedLayout share(InstanceLayout layout);

 private:
  struct ByValue {
    bool operator()(const SharedLayout& a, const SharedLayout& b) const { return *a < *b; }
  };
  std::set<SharedLayout, ByValue> layouts_;
  std::size_t tidy_at_ = 64;  // size at which unused layouts are removed
};

}  // namespace mobula::internal::scheduler
