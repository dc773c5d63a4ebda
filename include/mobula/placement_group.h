// Placement groups: bundles of resources that are reserved together or not at all.
//
//   auto group = mobula::placement_group({{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 2}}});
//   mobula::task<train>.options({.placement = mobula::Placement{group, 0}}).remote();
//
// Thread: any.
// Not: owned by its handles. A group ends with its job, or if it is detached when it is removed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mobula/amount.h>
#include <mobula/detail/export.h>
#include <mobula/detail/raw_id.h>
#include <mobula/detail/shape.h>

namespace mobula {

template <class T>
class ObjectRef;

// The lifetime of an actor or a placement group.
enum class Lifetime : std::uint8_t {
  counted,  // an actor ends with its last handle, a placement group with its job
  detached  // until it is killed or removed
};

// The distribution of the bundles over nodes.
enum class Strategy : std::uint8_t {
  pack,          // on few nodes, if possible
  spread,        // on many nodes, if possible
  strict_pack,   // all on one node
  strict_spread  // each on a different node
};

// Options of `placement_group`.
struct PlacementGroupOptions {
  std::string name = {};                           // name for `get_placement_group`; empty: none
  Lifetime lifetime = Lifetime::counted;           // whether the group ends with its job
  std::vector<Labels> bundle_label_selector = {};  // one selector per bundle, or empty
  // -1000 to 1000; order among the groups of jobs of equal priority, the higher one first.
  int priority = 0;
};

// A handle of a placement group. Copies refer to the same group and can be passed and stored. The
// end of a handle does not remove the group.
class MOBULA_API PlacementGroup {
 public:
  // Creates a handle that refers to no group.
  PlacementGroup() = default;
  // For the library.
  PlacementGroup(detail::RawId id, std::vector<Resources> bundles, Strategy strategy);

  // Reports whether the handle refers to no group.
  bool empty() const { return shape_ == nullptr; }
  // Reports whether the handle refers to a group.
  explicit operator bool() const { return !empty(); }
  // Returns the group's id: 32 hexadecimal digits, or an empty string if the handle is empty.
  std::string id() const;
  // Returns the bundles as requested.
  const std::vector<Resources>& bundles() const;
  // Returns the strategy.
  Strategy strategy() const;

  // Returns a ref whose value is true when all bundles are placed. It fails with
  // `PlacementGroupRemovedError`, with `UnschedulableError` if the group can never be placed, and
  // with `InvalidRequestError` if the cluster rejects the request, for example because the name is
  // taken.
  ObjectRef<bool> ready() const;
  // Reports whether all bundles are placed within `timeout`. Throws the errors of `ready`.
  bool wait(Duration timeout) const;

  // For the library.
  detail::RawId raw_id() const;
  // Compares group ids.
  friend bool operator==(const PlacementGroup& a, const PlacementGroup& b) {
    return a.raw_id() == b.raw_id();
  }

 private:
  struct Shape;
  std::shared_ptr<const Shape> shape_;
};

// Serializes handles of placement groups.
template <>
struct MOBULA_API Serializer<PlacementGroup> {
  // Writes the handle.
  static void write(Writer& out, const PlacementGroup& group);
  // Reads a handle.
  static PlacementGroup read(Reader& in);
};

// A row of `placement_group_table`.
struct PlacementGroupInfo {
  std::string id = {};                  // 32 hexadecimal digits
  std::string name = {};                // empty: none
  std::string name_space = {};          // namespace of the name
  std::string state = {};               // PENDING, CREATED, RESCHEDULING, or REMOVED
  Strategy strategy = Strategy::pack;   // distribution of the bundles
  bool detached = false;                // whether the group outlives its job
  std::vector<Resources> bundles = {};  // bundles as requested
  std::vector<std::string> nodes = {};  // node id by bundle; empty: not placed
  std::string reason = {};              // reason for waiting or for the removal, if known
  int priority = 0;                     // -1000 to 1000
};

// Requests a group and returns immediately. The group is placed when the cluster has capacity for
// all of its 1 to 1,000 bundles. A bundle is an amount of CPU, GPU, gpu_memory (bytes per device),
// memory (bytes), custom resources, and at most one accelerator_type:T. `InvalidRequestError` for
// an impossible bundle.
MOBULA_API PlacementGroup placement_group(const std::vector<Resources>& bundles,
                                          Strategy strategy = Strategy::pack,
                                          const PlacementGroupOptions& options = {});
// Requests the removal and returns when the request is sent. Tasks and actors in the group end with
// `PlacementGroupRemovedError`.
MOBULA_API void remove_placement_group(const PlacementGroup& group);
// Returns a handle of a named group. An empty `name_space` means the namespace of the job.
// `NotFoundError` if the name is unknown.
MOBULA_API PlacementGroup get_placement_group(const std::string& name,
                                              const std::string& name_space = "");
// Returns the groups of the cluster.
MOBULA_API std::vector<PlacementGroupInfo> placement_group_table();

}  // namespace mobula
