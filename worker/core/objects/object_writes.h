// Processes of this node that write objects: their requests for memory, writers that wait for an
// earlier writer of the same object, and seals that wait for the home of the object.
// Thread: owner (Objects). Errors: every request ends with a location or a failure.
#pragma once

#include <deque>
#include <optional>
#include <set>

#include "base/containers/table.h"
#include "worker/core/objects/home_directory.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_holds.h"
#include "worker/core/objects/object_reads.h"
#include "worker/core/objects/store_memory.h"

namespace mobula::internal::worker {

class ObjectWrites {
 public:
  // Effects on the components above.
  class Port {
   public:
    // The bytes of the object are sealed here.
    virtual void sealed(ObjectId object) = 0;

   protected:
    ~Port() = default;
  };

  ObjectWrites(ObjectContext& context, ObjectHolds& holds, StoreMemory& memory,
               HomeDirectory& directory, ObjectReads& reads, Port& port)
      : context_(context),
        holds_(holds),
        memory_(memory),
        directory_(directory),
        reads_(reads),
        port_(port) {}

  void on(ProcessId process, const ReserveObjectRequest& message);
  void on(ProcessId process, const SealObjectRequest& message);
  // The process no longer waits for memory for this object.
  void abandon(ProcessId process, ObjectId object);
  // Requests of processes that waited for memory.
  void allocated(const ReserveRequest& request);
  void allocation_refused(const ReserveRequest& request, const Failure& why);
  // The home of the object stores the result, or does not exist any more.
  void finish_sealers(ObjectId object);
  void on(const SlabFailed& failed);

  void process_ended(ProcessId process);
  // Returns true if the object was pinned for the process, which was sent to seal it.
  bool forget_sealer(ProcessId process, ObjectId object);
  void erase(ObjectId object);
  // End of each step: tries again for writers whose earlier writer has ended.
  void retry_blocked();
  void shift_deadlines(Duration gap);
  std::optional<Time> next_deadline() const;

 private:
  struct Blocked {
    ReserveRequest request;
    Time since;
  };
  struct Row {
    std::set<ProcessId> sealers{};     // processes that wait for the home's confirmation
    std::set<ProcessId> found_here{};  // with a pin each: processes sent to seal these bytes
  };

  void reserve(const ReserveRequest& request);
  // The home is another node.
  void store_for(NodeId home, ProcessId process, const SealObjectRequest& message);

  ObjectContext& context_;
  ObjectHolds& holds_;
  StoreMemory& memory_;
  HomeDirectory& directory_;
  ObjectReads& reads_;
  Port& port_;
  Table<ObjectId, Row> rows_;  // objects with sealers
  std::deque<Blocked> blocked_;
};

}  // namespace mobula::internal::worker
