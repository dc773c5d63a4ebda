// Copies objects off drained nodes to nodes that stay.
// A result that a drained node stores for another home moves to that home. An object whose home is
// drained moves to the nodes that hold it; the head names them when the home has ended. No reader
// waits for these pulls, so only a few run at a time. A pull that failed three times is left to the
// readers.
// Thread: owner (Objects). Units: bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "worker/core/objects/home_directory.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_holds.h"
#include "worker/core/objects/object_reads.h"
#include "worker/core/objects/store_memory.h"

namespace mobula::internal::worker {

class ObjectDrain {
 public:
  struct Left {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };

  ObjectDrain(ObjectContext& context, ObjectHolds& holds, StoreMemory& memory,
              HomeDirectory& directory, ObjectReads& reads)
      : context_(context), holds_(holds), memory_(memory), directory_(directory), reads_(reads) {}

  void begin(NodeId node);
  void end(NodeId node) { drained_.erase(node); }
  void forget();
  // Queues the object if its bytes may be lost with drained nodes.
  void check(ObjectId object);
  // At the object's home: releases the results that drained nodes store for it if this node, or one
  // that stays, has the bytes.
  void release_kept_results(ObjectId object);
  // Begins further pulls. Called at the end of each step.
  void advance();

  bool is_drained(NodeId node) const { return drained_.contains(node); }
  // True if the bytes may be lost with drained nodes, and this node must pull them.
  bool must_save(ObjectId object) const;
  bool is_saving(ObjectId object) const { return saving_.contains(object); }
  // While this node is drained: counts the objects here that a node that stays holds, or is the
  // home of, if no such node has a replica. Returns zeros if all other nodes are drained, too.
  Left left_to_others() const;

 private:
  static constexpr std::size_t max_saving = 16;  // concurrent pulls of drained objects
  static constexpr int max_tries = 3;

  bool under_way(ObjectId object) const;

  ObjectContext& context_;
  ObjectHolds& holds_;
  StoreMemory& memory_;
  HomeDirectory& directory_;
  ObjectReads& reads_;
  std::set<NodeId> drained_;
  std::deque<std::pair<ObjectId, int>> to_save_;  // (object, failed tries), waiting
  std::map<ObjectId, int> saving_;                // (object, failed tries), pulls in progress
};

}  // namespace mobula::internal::worker
