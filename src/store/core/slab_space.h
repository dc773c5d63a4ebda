// The slabs of one node and the room inside them: when a new one is needed, which one takes an
// object, when one is given back. Pure; knows sizes and ids, never bytes. Owned by one ObjectTable;
// not thread-safe.
//
// A slab belongs to one job and is written by one process. It can neither shrink nor return single
// pages once it is sealed, so what counts against the capacity is whole slabs (`committed_bytes`),
// never only the extents in use (`used_bytes`): the kernel is not asked for more than the capacity.
// Slabs of a writer grow geometrically, and a writer keeps at most one empty slab, for its next
// object: its pages are warm. Under pressure that one is retired as well, and so it is when it rests for
// long and all that rest hold more than is worth keeping.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/table.h"
#include "store/core/slab_allocator.h"

namespace mobula::internal {

// Where an object's bytes are. `size_bytes` is the object's own size, not that of its extent.
struct Place {
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

// A slab to create, before its first place is used.
struct NewSlab {
  SlabId slab;
  JobId job;
  ProcessId writer;
  std::uint64_t size_bytes = 0;
};

// The writer is to unmap the slab; `slab_gone` when it has.
struct RetiredSlab {
  SlabId slab;
  ProcessId writer;

  friend bool operator==(const RetiredSlab&, const RetiredSlab&) = default;
};

struct SlabChanges {
  std::vector<RetiredSlab> retire;
  std::vector<SlabId> released;  // nobody uses it any more: close its descriptor
};

// Without a place, room is being made: ask again after `slab_gone` or the next release.
struct Placement {
  std::optional<Place> place;
  std::optional<NewSlab> create;
  std::vector<RetiredSlab> retire;
};

struct SpaceOptions {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t first_slab_bytes = std::uint64_t{4} << 20;
  std::uint64_t max_slab_bytes = std::uint64_t{256} << 20;  // a larger object gets its own slab
  ProcessId incarnation{};  // of the agent; slab ids are derived from it, so that no later one
                            // of this node makes them again
};

class SlabSpace {
 public:
  static constexpr std::uint64_t page_bytes = 4096;

  explicit SlabSpace(SpaceOptions options);

  // Room for `size_bytes` in a slab of this job and writer. Nothing: it cannot be made even by
  // giving back what is empty.
  std::optional<Placement> place(JobId job, ProcessId writer, std::uint64_t size_bytes);
  void free(const Place& place, SlabChanges& out);
  // New slabs of others than the agent leave so much of the capacity to it, where they can.
  void keep_for_agent(std::uint64_t bytes) { kept_bytes_ = bytes; }

  // Takes over a slab that exists already, written by `writer` (empty: by nobody any more). False
  // if there is one with this id. It may exceed the capacity: its memory is in use whatever we say.
  bool adopt(SlabId slab, JobId job, ProcessId writer, std::uint64_t size_bytes);
  // Books an extent of an adopted slab; false if it is outside or taken.
  bool claim(const Place& place);

  void drop_writer(ProcessId writer, SlabChanges& out);
  // No more objects of this job are placed, and its slabs go as they empty.
  void drop_job(JobId job, SlabChanges& out);
  // The writer of a retired slab has unmapped it. False if the slab was not retired.
  bool slab_gone(SlabId slab);
  // A slab that never came to be, with the extents booked in it.
  void forget(SlabId slab);

  // In empty slabs, which their writers could use at once.
  std::uint64_t idle_bytes() const { return idle_bytes_; }
  // To be called once in a while: of the slabs that were empty at the call before and have been since,
  // the largest go, until no more than `floor_bytes` is idle.
  std::vector<RetiredSlab> retire_rested(std::uint64_t floor_bytes);

  struct Owner {
    JobId job;
    ProcessId writer;  // empty: gone
    std::uint64_t size_bytes;
  };
  std::optional<Owner> owner_of(SlabId slab) const;
  std::uint64_t capacity_bytes() const { return options_.capacity_bytes; }
  std::uint64_t committed_bytes() const { return committed_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  // What could be had now for new slabs, once what is empty has been given back.
  std::uint64_t available_bytes() const;
  std::size_t slab_count() const { return slabs_.size(); }
  // Those that have a slab, if an empty one.
  std::set<JobId> jobs() const;

 private:
  struct Slab {
    JobId job;
    ProcessId writer;
    SlabAllocator extents;
    bool retiring = false;
    bool closing = false;  // takes no more objects, and goes when it is empty
    bool idle = false;     // counted in idle_bytes_
    bool rested = false;   // idle since the call of retire_rested() before
  };
  using Owners = std::pair<ProcessId, JobId>;

  std::optional<Place> place_in_existing(const Owners& owner, std::uint64_t size_bytes);
  std::optional<std::uint64_t> new_slab_bytes(const Owners& owner, std::uint64_t minimum) const;
  // What to retire so that `needed` bytes fit; nothing if that is not enough.
  std::optional<std::vector<RetiredSlab>> make_room(std::uint64_t needed);
  std::uint64_t kept_from(const Owners& owner, std::uint64_t minimum) const;
  SlabId next_id();
  void add_slab(SlabId id, JobId job, ProcessId writer, std::uint64_t size_bytes);
  void retire(SlabId id, Slab& slab, std::vector<RetiredSlab>& out);
  void erase(SlabId id);
  void settle_empty(SlabId id, Slab& slab, SlabChanges& out);
  // After anything about it has changed.
  void count_idle(Slab& slab);

  SpaceOptions options_;
  Table<SlabId, Slab> slabs_;
  std::map<Owners, std::vector<SlabId>> by_owner_;  // of live writers, oldest first
  std::uint64_t next_slab_ = 0;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t retiring_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;
};

}  // namespace mobula::internal
