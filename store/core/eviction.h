// Chooses the objects that must leave a node's memory to free space.
// Thread: any (pure).
// Not: the eviction itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "store/core/slab_space.h"

namespace mobula::internal {

// Requirement for the eviction of an object.
enum class Departure : unsigned char {
  at_once,    // none: the bytes are available without writing them
  written,    // a write to disk
  requested,  // a process uses its location and must release it
  coming,     // one of the above has begun
  never,      // not now: it is being written, moved, or read
};

struct EvictionCandidate {
  ObjectId object{};
  ObjectLocation location;
  Time last_use;
  Departure departure = Departure::never;
};

struct EvictionGoal {
  std::uint64_t used_bytes = 0;  // sizes of objects, regardless of the memory that this frees
  std::uint64_t slab_bytes = 0;  // memory of slabs that become empty
  // An object that needs a location; in a slab of its writer if no whole slab can be freed.
  struct Own {
    JobId job{};
    ProcessId writer{};
    std::uint64_t size_bytes = 0;
  };
  std::optional<Own> own;
};

struct EvictionChoice {
  std::vector<ObjectId> at_once;
  std::vector<ObjectId> written;
  std::vector<ObjectId> requested;
  std::size_t coming = 0;        // further objects whose eviction has begun
  std::uint64_t used_bytes = 0;  // sizes of objects that leave or will leave
  std::uint64_t slab_bytes = 0;

  bool nothing() const { return at_once.empty() && written.empty() && requested.empty(); }
};

// Only whole slabs return memory, so whole slabs are chosen if possible: first those that need no
// write, then the least recently used ones. A slab with an object that cannot leave frees nothing.
// The other objects in it are evicted only to make space for the slab's own writer.
//
// `all` contains every object with a location, in an order that is equal on every run.
EvictionChoice choose_evictions(const std::vector<EvictionCandidate>& all, const SlabSpace& space,
                                const EvictionGoal& goal);

}  // namespace mobula::internal
