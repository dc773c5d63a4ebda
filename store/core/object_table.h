// The objects of one node: state, location, holds, and the upstream that must be notified of a
// release.
// Thread: owner (the agent's core). Units: bytes. Errors: see each function.
// Not: payload bytes; the choice of a source; the meaning of a loss for the owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/result.h"
#include "store/core/slab_space.h"

namespace mobula::internal {

enum class ObjectState : unsigned char {
  wanted,    // held, but not on this node: must be pulled or produced
  reserved,  // a writer fills its memory
  sealed,    // readable and immutable
  failed,    // not available; `failure` has the reason
  spilled,   // only on the disk of this node
};
std::string_view to_string(ObjectState state);

struct ObjectRow {
  JobId job;  // empty: wanted, job not known yet
  ObjectState state = ObjectState::wanted;
  ObjectLocation location;  // reserved, sealed
  ProcessId writer;         // reserved
  NodeId home;              // node whose agent counts the node holds; empty: unknown
  NodeId upstream;        // node of the replica that this one was copied from; empty: primary copy
  bool exported = false;  // nodes and the agent keep their holds when its job ends
  bool on_disk = false;   // has a copy on disk; if reserved, it is being restored, otherwise sealed
  std::uint64_t disk_bytes = 0;  // size of the copy on disk
  std::optional<Failure> failure;
  std::set<ProcessId> processes;
  std::set<NodeId> nodes;

  // True if all its bytes are on this node, in memory or on disk.
  bool here() const { return state == ObjectState::sealed || on_disk; }
  bool has_location() const {
    return state == ObjectState::reserved || state == ObjectState::sealed;
  }
};

struct ReserveRequest {
  ObjectId object{};
  JobId job{};
  std::uint64_t size_bytes = 0;
  ProcessId writer{};
  NodeId home{};
  NodeId upstream{};  // empty: primary copy
  bool exported = false;
};

// An object that was removed from this node with its last hold.
struct GoneObject {
  ObjectId object{};
  JobId job{};
  ObjectState state;  // last state
  NodeId home{};
  // If not empty, the agent notifies that node: its replica is not relied upon here any more.
  NodeId upstream{};

  friend bool operator==(const GoneObject&, const GoneObject&) = default;
};

struct Consequences {
  std::vector<GoneObject> gone{};
  std::vector<ObjectId> interrupted{};  // the writer left it unsealed; its holders want it again
  SlabChanges slabs;
};

struct HoldOutcome {
  ObjectState state = ObjectState::wanted;
  bool newly_wanted = false;  // first request: start a pull
};

// A mapped slab of a process with its sealed objects, for an agent that did not create it.
struct Adoption {
  ProcessId process{};
  SlabId slab{};
  std::uint64_t size_bytes = 0;  // from fstat, not from the process
  bool process_writes = false;   // mapped writable: the process continues as its writer
  struct Object {
    ObjectId object{};
    std::uint64_t offset = 0;
    std::uint64_t size_bytes = 0;
    NodeId home{};
    NodeId upstream{};
    bool exported = false;
  };
  std::vector<Object> objects{};
};

struct JobUse {
  std::uint64_t used_bytes = 0;     // in memory
  std::uint64_t spilled_bytes = 0;  // objects that are only on disk
  std::uint64_t objects = 0;

  friend bool operator==(const JobUse&, const JobUse&) = default;
};

struct TableOptions {
  SpaceOptions space;  // `space.incarnation` is the agent itself, a process without a job
  std::size_t max_holds_per_process = 1'000'000;
};

// An object exists only while a process of this node or another node *holds* it. A process either
// holds an object or not (it counts internally). Therefore holds and releases may be repeated, and
// a death removes exactly the holds of the dead process. The process that reserves an object holds
// it until it releases it. Operations return the actions for the caller (`Consequences`) and call
// nothing.
class ObjectTable {
 public:
  explicit ObjectTable(TableOptions options);

  // Adds a process that may hold and write objects of `job`. Repeating the call has no effect.
  void add_process(ProcessId process, JobId job);

  // Returns a location for an object. A Placement without a location names the slabs to retire
  // before a retry. The writer of a reserved object gets the same location again. A spilled object
  // is reserved only by the agent, which restores it. A wanted or failed object keeps its holds.
  // The caller has released the upstream of a replaced object.
  // Errors: resource_exhausted (the text has sizes and the largest jobs), already_exists (reserved,
  // sealed, or spilled), permission_denied (not the writer's job), not_found (unknown process).
  Result<Placement> reserve(const ReserveRequest& request);
  // Reserves part of the capacity for objects that the agent itself restores or pulls.
  void reserve_for_agent(std::uint64_t bytes) { space_.reserve_for_agent(bytes); }
  // True if `reserve` would fail only for lack of space.
  bool may_reserve(const ReserveRequest& request) const { return check_reserve(request).ok(); }
  // The failure of `reserve` for lack of space.
  Failure full(const ReserveRequest& request) const;
  // The writer has finished. Errors: not_found, permission_denied (another writer), already_exists
  // (sealed).
  Result<void> seal(ObjectId object, ProcessId writer);
  // Marks a wanted or reserved object as failed; other states do not change. Its memory is free at
  // once, so a live writer must have stopped writing. An object with a copy on disk becomes
  // spilled.
  Consequences fail(ObjectId object, Failure cause);
  // The slab of a Placement could not be created: its objects fail with `cause`, or become spilled
  // again.
  void slab_failed(SlabId slab, const Failure& cause);
  // See SlabSpace.
  std::vector<RetiredSlab> retire_rested(std::uint64_t floor_bytes) {
    return space_.retire_rested(floor_bytes);
  }
  // The writer of a retired slab has unmapped it. Returns false if it was not retired.
  bool slab_gone(SlabId slab) { return space_.slab_gone(slab); }

  // Records that a sealed object has a copy on this node's disk.
  void record_disk_copy(ObjectId object);
  // Frees the memory of a sealed object, which no process may be reading. The object becomes
  // spilled if it has a copy on disk, otherwise wanted, because another node has its bytes.
  SlabChanges evict(ObjectId object);
  // The copy on disk is unusable. A spilled object becomes wanted.
  void lose_on_disk(ObjectId object);

  // A process of any job may hold and read an object, because calls pass refs between jobs.
  // Errors: not_found (unknown process), resource_exhausted (too many holds).
  Result<HoldOutcome> hold(ProcessId process, ObjectId object);
  Consequences release(ProcessId process, ObjectId object);
  // Another node relies on the copy of this node. Errors: not_found if no copy exists or is
  // expected.
  Result<void> hold_node(NodeId node, ObjectId object);
  Consequences release_node(NodeId node, ObjectId object);

  Consequences drop_process(ProcessId process);
  Consequences drop_node(NodeId node);
  // Drops the processes of the job, and the holds of nodes and of the agent on objects that it did
  // not export.
  Consequences drop_job(JobId job);

  // The end of its job drops no hold of the object. Returns false if it is unknown.
  bool export_object(ObjectId object);
  // Takes over the whole slab or, on a failure, nothing. The process holds the objects; wanted
  // objects become sealed. Errors: not_found (unknown process), already_exists (the slab, or an
  // object in another slab), permission_denied, invalid_argument (locations that overlap or are
  // outside).
  Result<void> adopt(const Adoption& adoption);

  const ObjectRow* find(ObjectId object) const { return objects_.find(object); }
  // Returns the row. Errors: not_found, or the failure of the object.
  Result<const ObjectRow*> lookup(ProcessId process, ObjectId object) const;
  const Table<ObjectId, ObjectRow>& objects() const { return objects_; }
  const SlabSpace& space() const { return space_; }
  const std::map<JobId, JobUse>& jobs() const { return jobs_; }
  // Total size of the objects that are only on disk.
  std::uint64_t spilled_bytes() const { return spilled_bytes_; }

 private:
  struct ProcessRow {
    JobId job;  // empty: the agent
    std::set<ObjectId> held;
  };

  Result<ProcessRow*> process_for(ProcessId process);
  Result<const ProcessRow*> process_for(ProcessId process) const;
  Result<void> check_reserve(const ReserveRequest& request) const;
  Result<void> check_adoption(const Adoption& adoption, JobId job) const;
  Result<void> check_hold_limit(ProcessId process, const ProcessRow& row, ObjectId object) const;
  void book(const ObjectRow& row);
  void unbook(ObjectRow& row);
  void book_spilled(ObjectRow& row);
  void unbook_spilled(ObjectRow& row);
  void free_location(ObjectRow& row, SlabChanges& out);
  void withdraw_released(SlabChanges& changes) const;
  void unhold(ProcessId process, ObjectId object, Consequences& out);
  void unhold_node(NodeId node, ObjectId object, Consequences& out);
  void erase_unheld(ObjectId object, Consequences& out);

  TableOptions options_;
  SlabSpace space_;
  Table<ObjectId, ObjectRow> objects_;
  Table<ProcessId, ProcessRow> processes_;
  std::map<JobId, JobUse> jobs_;  // jobs with at least one object in memory or on disk
  std::uint64_t spilled_bytes_ = 0;
};

}  // namespace mobula::internal
