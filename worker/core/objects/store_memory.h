// Memory of the store: requests that wait for it, its slabs, the uses that keep bytes in place, and
// evictions. Memory is freed by dropping replicas first, then by spilling objects that no process
// reads.
// Thread: owner (Objects). Units: bytes. Errors: every request ends with a location or a failure.
// Not: files (ObjectSpill).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "store/core/eviction.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_holds.h"
#include "worker/core/objects/object_spill.h"

namespace mobula::internal::worker {

class StoreMemory {
 public:
  // Effects on the components above.
  class Port {
   public:
    // A request that waited is complete.
    virtual void allocated(const ReserveRequest& request, const ObjectLocation& location) = 0;
    virtual void allocation_refused(const ReserveRequest& request, const Failure& why) = 0;
    // Other nodes have the bytes and keep them while the object is held.
    virtual bool stored_elsewhere(ObjectId object, const ObjectRow& row) const = 0;
    // This node has no copy of the object any more, also not on disk.
    virtual void replica_evicted(ObjectId object) = 0;
    // The memory of the object is free.
    virtual void evicted(ObjectId object) = 0;

   protected:
    ~Port() = default;
  };
  static constexpr std::size_t max_waiting = 4096;  // requests

  StoreMemory(ObjectContext& context, ObjectHolds& holds, ObjectSpill& spill, Port& port)
      : context_(context), holds_(holds), spill_(spill), port_(port) {}

  // ---- requests ---------------------------------------------------------------------------------
  // Empty: memory is being freed, or may become free.
  Result<std::optional<ObjectLocation>> allocate(const ReserveRequest& request);
  // Queues the request until the port receives its result. Returns false if too many wait.
  bool wait(const ReserveRequest& request);
  // True if a request of the agent for this object waits.
  bool awaits(ObjectId object) const;
  // Ends the wait of the agent, or of a process, for memory for this object.
  void cancel_wait(ObjectId object);
  void cancel_wait(ProcessId writer, ObjectId object);
  // Memory may have become free, so waiting requests are tried again.
  void retry() { retry_due_ = true; }
  // Objects may have become evictable, or the demand may have changed.
  void check() { check_due_ = true; }

  // ---- uses of bytes here -----------------------------------------------------------------------
  // The process may have the bytes mapped. `fetch`: its request; 0: it wrote the bytes.
  void map(ProcessId process, ObjectId object, std::uint64_t fetch);
  void written_by_owner(ProcessId process, ObjectId object);
  void unmap(ProcessId process, ObjectId object);
  void on(ProcessId process, const UnpinReply& message);
  // A peer reads the bytes here, or the available chunks of a pull.
  void begin_offer(ObjectId object);
  void begin_partial_offer(ObjectId object) { ++rows_[object].offers; }
  void end_offer(ObjectId object);
  void touch(ObjectId object);
  // `pulled`: a replica of bytes on other nodes.
  void sealed(ObjectId object, bool pulled);
  void set_primary(ObjectId object);  // other nodes may not have the bytes any more
  void set_origins(ObjectId object, const std::vector<NodeId>& origins);
  // Evicts the object, which has a copy on disk, unless it is in use.
  void evict_written(ObjectId object);

  // ---- slabs ------------------------------------------------------------------------------------
  void freed(const SlabChanges& slabs, bool objects_erased);
  void unmapped(ProcessId process, std::uint64_t slab_number);

  void process_ended(ProcessId process);
  void node_died(NodeId node);
  void erase(ObjectId object) { rows_.erase(object); }
  // Assigns free memory to waiting requests, and frees more if necessary.
  void finish_step();
  void tick();
  void shift_deadlines(Duration gap);
  std::optional<Time> next_deadline() const;

  bool maps(ProcessId process, ObjectId object) const;
  bool in_use(ObjectId object) const;
  bool secondary(ObjectId object, const ObjectRow& row) const;

 private:
  // A request for memory that waits for eviction, or for a process to unmap an empty slab.
  struct Waiting {
    ReserveRequest request;
    Time since;
  };
  struct Mapping {
    std::uint64_t fetch = 0;
    std::optional<Time> requested{};  // time of the request to return the location
  };
  struct Row {
    std::map<ProcessId, Mapping> mappings{};
    int offers = 0;  // peers that read here
    Time last_use{};
    bool pulled = false;
    bool awaited = false;        // a request of the agent waits
    std::set<NodeId> origins{};  // locations reported at the pull
  };
  static constexpr int max_waits = 30;  // maximum wait for memory, in multiples of the timeout
  // Intervals between scans of all objects, after a scan that found no evictable object.
  static constexpr Duration poll_interval = 1ms;
  static constexpr Duration idle_poll_interval = 100ms;

  bool may_be_freed() const;
  void retry_waiting();
  void refuse_overdue();
  Time wait_ends(const Waiting& waiting) const;
  std::string why_full() const;
  void end_wait(const ReserveRequest& request);

  void free_memory();
  Time next_scan() const;
  std::optional<EvictionGoal> goal() const;
  Departure departure(ObjectId object, const ObjectRow& stored, const Row& row) const;
  void evict(ObjectId object);
  void request_return(ObjectId object);

  void retire(const std::vector<RetiredSlab>& slabs);
  void drop_slab(SlabId slab);
  void watch_idle_memory();
  void return_idle_memory();

  ObjectContext& context_;
  ObjectHolds& holds_;
  ObjectSpill& spill_;
  Port& port_;
  Table<ObjectId, Row> rows_;  // objects that were used or awaited here
  std::deque<Waiting> waiting_;
  Time progress_at_, requested_at_;  // last freed memory; last request to return some
  bool retry_due_ = false;
  bool check_due_ = false;
  std::optional<Time> scan_at_;  // next scan, after `return_timeout` for requested locations
  Time scanned_at_;
  bool found_nothing_ = false;                // the last scan found no evictable object
  std::optional<Time> idle_check_at_;         // next check for unused memory of the store
  std::map<std::uint64_t, SlabId> retiring_;  // by number: slabs that processes must unmap
};

}  // namespace mobula::internal::worker
