// What has to leave a node's memory so that there is room. Pure functions over values.
//
// Memory comes back in whole slabs only, so whole slabs are chosen where possible: those first that
// need no writing, then those whose latest use is the longest ago. A slab with an object in it that
// cannot leave is no use to others; objects beside that one leave only to make place for the slab's
// own writer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "store/core/slab_space.h"

namespace mobula::internal {

// What stands between an object and its leaving.
enum class Departure : unsigned char {
  at_once,  // its bytes can be had again without writing them
  written,  // they have to be written first
  asked,    // a process has its place and is to be asked for it
  coming,   // one of the above has begun
  never,    // not now: it is being written, moved or read
};

struct EvictionCandidate {
  ObjectId object{};
  Place place;
  Time last_use;
  Departure departure = Departure::never;
};

struct EvictionGoal {
  std::uint64_t used_bytes = 0;  // of objects, whatever that gives back
  std::uint64_t slab_bytes = 0;  // of memory, in slabs that become empty
  // Of an object for which there is to be place; in a slab of its writer if whole ones will not do.
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
  std::vector<ObjectId> asked;
  std::size_t coming = 0;        // more, of which that has begun
  std::uint64_t used_bytes = 0;  // that leave, or are about to
  std::uint64_t slab_bytes = 0;

  bool nothing() const { return at_once.empty() && written.empty() && asked.empty(); }
};

// `all`: every object that has a place, in an order that is the same everywhere.
EvictionChoice choose_evictions(const std::vector<EvictionCandidate>& all, const SlabSpace& space,
                                const EvictionGoal& goal);

}  // namespace mobula::internal
