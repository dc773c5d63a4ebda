// What a node has, in the form its books read it: resources by name and instance by instance, and places
// for executors. Thousands of nodes are alike, so they share one layout. Plain values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/node_shape.h"

namespace mobula::internal::scheduler {

struct InstanceLayout {
  struct Instance {
    Quantity total;
    std::int64_t memory = 0;
    std::int64_t context = 0;  // bytes that each booking of bytes takes beside them
    std::vector<std::string> types;
    std::int32_t island = -1;
    friend auto operator<=>(const Instance&, const Instance&) = default;
  };
  struct Resource {
    std::string name;
    Quantity total;
    std::vector<Instance> instances;
    bool units = false;  // an instance for each unit, accelerators or not
    std::size_t amount_at =
        0;  // where books keep its sum, and after it what is left of each instance
    friend auto operator<=>(const Resource&, const Resource&) = default;
  };

  explicit InstanceLayout(const NodeShape& shape);
  // Of a node like this, only what `share` holds, under the same indices.
  InstanceLayout(const InstanceLayout& node, const Allocation& share);

  std::vector<Resource> resources;          // ordered by name, accelerator types left out
  std::size_t amounts = 0;                  // places in the books
  std::vector<std::string> types;           // of the node or of one of its devices, in order
  std::vector<std::string> node_types;      // of the node as a whole
  std::vector<std::string> resource_types;  // those that it names among its resources
  std::vector<std::size_t> packed;          // the resources that packing counts, by their places
  std::int32_t task_executors = 0, actor_executors = 0;
  bool has_devices = false;
  std::int32_t cpu = -1;  // its place among the resources; -1: none
  const Resource* of_cpu() const { return cpu < 0 ? nullptr : &resources[static_cast<std::size_t>(cpu)]; }
  friend auto operator<=>(const InstanceLayout&, const InstanceLayout&) = default;

 private:
  void add(Resource resource);
  void number();
};

// Shared because each of the books that read it may be the last.
using SharedLayout = std::shared_ptr<const InstanceLayout>;

// One layout for all who are alike. Not thread-safe.
class LayoutTable {
 public:
  SharedLayout share(InstanceLayout layout);

 private:
  struct ByValue {
    bool operator()(const SharedLayout& a, const SharedLayout& b) const { return *a < *b; }
  };
  std::set<SharedLayout, ByValue> layouts_;
  std::size_t tidy_at_ = 64;  // so many, and those that nobody has any more go
};

}  // namespace mobula::internal::scheduler
