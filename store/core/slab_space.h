// The slabs of one node and the space in them: creation, placement of objects, retirement. Knows
// sizes and ids, never bytes.
// Thread: owner (one ObjectTable). Units: bytes.
// Not: the mapping of slabs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/containers/table.h"
#include "base/id.h"
#include "store/core/slab_allocator.h"

namespace mobula::internal {

// Location of the bytes of an object. `size_bytes` is the size of the object, not of its extent.
struct ObjectLocation {
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const ObjectLocation&, const ObjectLocation&) = default;
};

// A slab that must be created before its first location is used.
struct NewSlab {
  SlabId slab;
  JobId job;
  ProcessId writer;
  std::uint64_t size_bytes = 0;
};

// A slab that its writer must unmap, followed by `slab_gone`.
struct RetiredSlab {
  SlabId slab;
  ProcessId writer;

  friend bool operator==(const RetiredSlab&, const RetiredSlab&) = default;
};

struct SlabChanges {
  std::vector<RetiredSlab> retire;
  std::vector<SlabId> released;  // unused: close its descriptor
};

// Without a location, space is being freed: retry after `slab_gone` or the next release.
struct Placement {
  std::optional<ObjectLocation> location;
  std::optional<NewSlab> create;
  std::vector<RetiredSlab> retire;
};

struct SpaceOptions {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t first_slab_bytes = std::uint64_t{4} << 20;
  std::uint64_t max_slab_bytes = std::uint64_t{256} << 20;  // a larger object gets its own slab
  // The agent's incarnation. Slab ids are derived from it, so no later incarnation repeats them.
  ProcessId incarnation{};
};

// A slab belongs to one job and has one writer. A sealed slab can neither shrink nor return single
// pages. Therefore whole slabs count against the capacity (`committed_bytes`), not only the extents
// in use (`used_bytes`), and the memory in use never exceeds the capacity. The slabs of a writer
// grow geometrically. A writer keeps empty slabs of at most `max_slab_bytes` in total, or one, for
// its next objects, because their pages are warm. They are retired under memory pressure, or when
// they stay empty for long and all empty slabs exceed a limit.
class SlabSpace {
 public:
  static constexpr std::uint64_t page_bytes = 4096;

  explicit SlabSpace(SpaceOptions options);

  // Finds space for `size_bytes` in a slab of this job and writer. Returns nullopt if even the
  // retirement of all empty slabs would not free enough.
  std::optional<Placement> allocate(JobId job, ProcessId writer, std::uint64_t size_bytes);
  void free(const ObjectLocation& location, SlabChanges& out);
  // New slabs of other writers leave this part of the capacity to the agent, if possible.
  void reserve_for_agent(std::uint64_t bytes) { reserved_bytes_ = bytes; }

  // Takes over an existing slab with `writer` (empty: no writer any more). Returns false if the id
  // is known. It may exceed the capacity, because its memory is already in use.
  bool adopt(SlabId slab, JobId job, ProcessId writer, std::uint64_t size_bytes);
  // Allocates an extent of an adopted slab. Returns false if it is outside or allocated.
  bool claim(const ObjectLocation& location);

  void drop_writer(ProcessId writer, SlabChanges& out);
  // Places no more objects of this job, and removes its slabs when they become empty.
  void drop_job(JobId job, SlabChanges& out);
  // The writer of a retired slab has unmapped it. Returns false if the slab was not retired.
  bool slab_gone(SlabId slab);
  // Removes a slab that could not be created, with its extents.
  void forget(SlabId slab);

  // Total size of empty slabs, which their writers could use at once.
  std::uint64_t idle_bytes() const { return idle_bytes_; }
  // Must be called periodically. Among the slabs that have been empty since the previous call, the
  // largest are retired until at most `floor_bytes` are idle.
  std::vector<RetiredSlab> retire_rested(std::uint64_t floor_bytes);

  struct Owner {
    JobId job;
    ProcessId writer;  // empty: the writer has ended
    std::uint64_t size_bytes;
  };
  std::optional<Owner> owner_of(SlabId slab) const;
  std::uint64_t capacity_bytes() const { return options_.capacity_bytes; }
  std::uint64_t committed_bytes() const { return committed_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  // Capacity available for new slabs after the retirement of all empty ones.
  std::uint64_t available_bytes() const;
  std::size_t slab_count() const { return slabs_.size(); }
  // Jobs with at least one slab, also an empty one.
  std::set<JobId> jobs() const;

 private:
  struct Slab {
    JobId job;
    ProcessId writer;
    SlabAllocator extents;
    bool retiring = false;
    bool closing = false;  // takes no more objects; removed when empty
    bool idle = false;     // counted in idle_bytes_
    bool rested = false;   // idle since the previous call of retire_rested()
  };
  using Owners = std::pair<ProcessId, JobId>;

  std::optional<ObjectLocation> find_in_existing(const Owners& owner, std::uint64_t size_bytes);
  std::optional<std::uint64_t> new_slab_bytes(const Owners& owner, std::uint64_t minimum) const;
  // Returns the slabs to retire so that `needed` bytes fit, or nullopt if that is not enough.
  std::optional<std::vector<RetiredSlab>> free_capacity(std::uint64_t needed);
  std::uint64_t reserved_from(const Owners& owner, std::uint64_t minimum) const;
  SlabId next_id();
  void add_slab(SlabId id, JobId job, ProcessId writer, std::uint64_t size_bytes);
  void retire(SlabId id, Slab& slab, std::vector<RetiredSlab>& out);
  void erase(SlabId id);
  void settle_empty(SlabId id, Slab& slab, SlabChanges& out);
  // Must be called after every change of the slab.
  void count_idle(Slab& slab);

  SpaceOptions options_;
  Table<SlabId, Slab> slabs_;
  std::map<Owners, std::vector<SlabId>> by_owner_;  // live writers only; oldest slab first
  std::uint64_t next_slab_ = 0;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t retiring_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;
};

}  // namespace mobula::internal
