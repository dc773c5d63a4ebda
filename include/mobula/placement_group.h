// Placement groups: bundles of resources that are booked together or not at all, for tasks and actors
// that belong close together, or far apart.
//
//   auto group = mobula::placement_group({{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 2}}});
//   if (!group.wait(std::chrono::seconds(10))) …
//   mobula::task<train>.options({.num_gpus = 1, .placement = mobula::Placement{group, 0}}).remote();
//
// Values; any thread.
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

// `counted` actors end with their last handle, such groups with their job; `detached` ones stay until
// they are killed or removed.
enum class Lifetime : std::uint8_t { counted, detached };

// `pack`: on few nodes. `spread`: on many. The strict ones: on one node, each on a node of its own.
enum class Strategy : std::uint8_t { pack, spread, strict_pack, strict_spread };

struct PlacementGroupOptions {
  std::string name = {};
  Lifetime lifetime = Lifetime::counted;
  std::vector<Labels> bundle_label_selector = {};  // one for each bundle, or none at all
  // -1000 to 1000, among the groups of jobs of one priority; higher gets its room first.
  int priority = 0;
};

// Names a placement group. Copies name the same; it may be passed and stored in values. Its end does
// not remove the group.
class MOBULA_API PlacementGroup {
 public:
  // Names none.
  PlacementGroup() = default;
  PlacementGroup(detail::RawId id, std::vector<Resources> bundles, Strategy strategy);

  bool empty() const { return shape_ == nullptr; }
  explicit operator bool() const { return !empty(); }
  // 32 digits; empty for none.
  std::string id() const;
  const std::vector<Resources>& bundles() const;
  Strategy strategy() const;

  // True once all bundles have their places. Fails with PlacementGroupRemovedError, with
  // UnschedulableError where that can be told to be for ever, and with InvalidRequestError for a
  // request that the cluster refused (a name that is taken).
  ObjectRef<bool> ready() const;
  // Whether all bundles have their places within so long; throws what ready() fails with.
  bool wait(Duration timeout) const;

  // For the library.
  detail::RawId raw_id() const;
  friend bool operator==(const PlacementGroup& a, const PlacementGroup& b) {
    return a.raw_id() == b.raw_id();
  }

 private:
  struct Shape;
  std::shared_ptr<const Shape> shape_;
};

template <>
struct MOBULA_API Serializer<PlacementGroup> {
  static void write(Writer& out, const PlacementGroup& group);
  static PlacementGroup read(Reader& in);
};

// A group as placement_group_table() tells of it.
struct PlacementGroupInfo {
  std::string id = {};
  std::string name = {};
  std::string name_space = {};
  std::string state = {};  // PENDING, CREATED, RESCHEDULING, REMOVED
  Strategy strategy = Strategy::pack;
  bool detached = false;
  std::vector<Resources> bundles = {};
  std::vector<std::string> nodes = {};  // by bundle; empty: it has no place
  std::string reason = {};              // why it waits or was removed, where that is known
  int priority = 0;
};

// Returns at once; the group is placed when there is room for all of its bundles (1 to 1,000). A
// bundle is an amount of CPU, GPU, gpu_memory (bytes of each device), memory (bytes), custom resources
// and at most one accelerator_type:T; throws InvalidRequestError for what no bundle can be.
MOBULA_API PlacementGroup placement_group(const std::vector<Resources>& bundles,
                                          Strategy strategy = Strategy::pack,
                                          const PlacementGroupOptions& options = {});
// Returns when that is sent. What runs in the group is ended, with PlacementGroupRemovedError.
MOBULA_API void remove_placement_group(const PlacementGroup& group);
// Of the job's name space, or of another. NotFoundError.
MOBULA_API PlacementGroup get_placement_group(const std::string& name,
                                              const std::string& name_space = "");
MOBULA_API std::vector<PlacementGroupInfo> placement_group_table();

}  // namespace mobula
