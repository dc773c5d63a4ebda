// Memory of the node's store that this process maps: slabs that it writes, and objects that it
// reads. Data in the store of a dead agent stays mapped until it is copied to the next store.
// Thread: owner, under the engine's lock.
// Not: reservations and reads (ClientCore).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "client/core/client_commands.h"
#include "protocol/messages/agent_to_process.h"
#include "store/fresh_pages.h"
#include "store/slab.h"
#include "store/slab_cache.h"

namespace mobula::internal::client {

class ObjectMappings {
 public:
  // Maps the slab that a message names. Must precede the core's step with the message.
  void take_descriptor(const AgentToProcess& message, std::vector<Fd> fds);
  void unmap(std::uint64_t slab);
  // The store of the mapped slabs was lost. They are unmapped by unmap_lost().
  void lose_store();
  void unmap_lost();

  // ---- objects that this process writes
  // Errors: unavailable.
  Result<std::span<std::byte>> reserved(const SlabRange& location, std::int64_t size_bytes);
  // Writes the payload, or copies the mapped value, into the reserved memory. False if the value is
  // not mapped here.
  bool fill(const SpaceReserved& space);

  // ---- objects that this process reads
  std::optional<SlabView> view(ObjectId object) const;
  void drop_view(ObjectId object) { readable_.erase(object); }

 private:
  std::span<const std::byte> mapped_bytes(ObjectId object, const SlabRange& location) const;

  std::map<std::uint64_t, WritableSlab> writable_;
  FreshPages fresh_pages_;  // populates the pages of writable slabs
  SlabCache slabs_;
  std::map<std::uint64_t, SlabView> mapped_;  // one view keeps each slab mapped until retired
  std::set<std::uint64_t> lost_;              // slabs of a dead agent
  std::map<ObjectId, SlabView> readable_;
};

}  // namespace mobula::internal::client
