// The objects of one node: where each is, who holds it, whom we owe a release. Pure; ids and sizes
// only, payload bytes never come here. Part of the agent's core; not thread-safe.
//
// An object lives while a process of this node or another node *holds* it, and not longer. A
// process holds an object or not (it counts inside itself), so holding and releasing may be
// repeated, and a death subtracts exactly what the dead held. Whoever reserves an object holds it
// until it releases it. Operations return what the caller must do (`Consequences`); nothing is
// called back. What it does not do: decide where to pull from, or what a lost object means to its
// owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/id.h"
#include "base/result.h"
#include "base/table.h"
#include "store/core/slab_space.h"

namespace mobula::internal {

enum class ObjectState : unsigned char {
  wanted,    // held, but not here: to be pulled or made
  reserved,  // a writer has its place and fills it
  sealed,    // readable, never changes again
  failed,    // will not come; `failure` says why
  spilled,   // on this node's disk alone
};
std::string_view to_string(ObjectState state);

struct ObjectRow {
  JobId job;  // empty: wanted, and nobody has said yet whose it is
  ObjectState state = ObjectState::wanted;
  Place place;            // reserved, sealed
  ProcessId writer;       // reserved
  NodeId home;            // the node whose agent counts the holds of nodes; empty: unknown
  NodeId upstream;        // the node whose copy ours was made from; empty: primary copy
  bool exported = false;  // readable by other jobs
  bool on_disk = false;   // it has a copy there; reserved, it is being read back, or else sealed
  std::uint64_t disk_bytes = 0;  // of that copy
  std::optional<Failure> failure;
  std::set<ProcessId> processes;
  std::set<NodeId> nodes;

  bool primary() const { return upstream.empty(); }
  // Its bytes are whole on this node, in memory or on disk.
  bool here() const { return state == ObjectState::sealed || on_disk; }
  bool has_place() const { return state == ObjectState::reserved || state == ObjectState::sealed; }
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

// An object that left this node with its last hold.
struct GoneObject {
  ObjectId object{};
  JobId job{};
  ObjectState state;  // it was in
  NodeId home{};
  NodeId upstream{};  // not empty: to be told that its copy is no longer relied upon from here

  friend bool operator==(const GoneObject&, const GoneObject&) = default;
};

struct Consequences {
  std::vector<GoneObject> gone{};
  std::vector<ObjectId> interrupted{};  // its writer left it unsealed; wanted again by its holders
  SlabChanges slabs;
};

struct HoldOutcome {
  ObjectState state = ObjectState::wanted;
  bool newly_wanted = false;  // the first to want it: begin to pull
};

// A process's mapped slab with the sealed objects in it, for an agent that did not make it.
struct Adoption {
  ProcessId process{};
  SlabId slab{};
  std::uint64_t size_bytes = 0;  // as fstat says, not as the process says
  bool process_writes = false;   // it has the slab mapped writable: it goes on as its writer
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
  std::uint64_t used_bytes = 0;     // of memory
  std::uint64_t spilled_bytes = 0;  // of objects that are on disk alone
  std::uint64_t objects = 0;

  friend bool operator==(const JobUse&, const JobUse&) = default;
};

struct TableOptions {
  SpaceOptions space;  // `space.incarnation` is the agent itself, as a process without a job
  std::size_t max_holds_per_process = 1'000'000;
};

class ObjectTable {
 public:
  explicit ObjectTable(TableOptions options);

  // A process that may hold and write objects of `job`. Adding it again changes nothing.
  void add_process(ProcessId process, JobId job);

  // A place for an object, or, in a Placement without one, what to retire before asking again.
  // Asked again by the writer of a reserved object, it is the same place. Fails with
  // resource_exhausted (the text names sizes and the biggest jobs), already_exists (reserved, sealed
  // or spilled), permission_denied (not the writer's job), not_found (unknown process). A spilled
  // object has its place reserved by the agent, which reads it back. A wanted or
  // failed object keeps its holds; those of other jobs' processes are told by `lookup` that they
  // may not read it. If it had an upstream, the caller has released that one.
  Result<Placement> reserve(const ReserveRequest& request);
  // Of the capacity, for what the agent itself brings here.
  void keep_for_agent(std::uint64_t bytes) { space_.keep_for_agent(bytes); }
  // Whether `reserve` would find everything in order but room.
  bool may_reserve(const ReserveRequest& request) const { return check_reserve(request).ok(); }
  // What `reserve` says when there is no room.
  Failure full(const ReserveRequest& request) const;
  // The writer is done. not_found, permission_denied (another wrote it), already_exists (sealed).
  Result<void> seal(ObjectId object, ProcessId writer);
  // A wanted or reserved object will not come; others stay as they are. Its place is free at once,
  // so a live writer must have stopped writing. One with a copy on disk is spilled again.
  Consequences fail(ObjectId object, Failure cause);
  // The slab of a Placement could not be created: its objects fail with `cause`, or are spilled
  // again.
  void slab_failed(SlabId slab, const Failure& cause);
  // See SlabSpace.
  std::vector<RetiredSlab> retire_rested(std::uint64_t floor_bytes) { return space_.retire_rested(floor_bytes); }
  // The writer of a retired slab has unmapped it; false if it was not retired.
  bool slab_gone(SlabId slab) { return space_.slab_gone(slab); }

  // A sealed object has a copy on this node's disk, from now on.
  void keep_on_disk(ObjectId object);
  // Gives back the memory of a sealed object, which nobody may be reading: it is spilled if it has
  // a copy on disk, else wanted, because it can be had elsewhere.
  SlabChanges evict(ObjectId object);
  // The copy on disk is worth nothing. A spilled object is wanted then.
  void lose_on_disk(ObjectId object);

  // permission_denied (another job's object, not exported), not_found (unknown process),
  // resource_exhausted (too many holds).
  Result<HoldOutcome> hold(ProcessId process, ObjectId object);
  Consequences release(ProcessId process, ObjectId object);
  // Another node relies on our copy. not_found if there is none and none is coming.
  Result<void> hold_node(NodeId node, ObjectId object);
  Consequences release_node(NodeId node, ObjectId object);

  Consequences drop_process(ProcessId process);
  Consequences drop_node(NodeId node);
  // Drops the job's processes, and the holds of nodes and of the agent on what it did not export.
  Consequences drop_job(JobId job);

  // Other jobs may hold it from now on. False if it is not here.
  bool export_object(ObjectId object);
  // For a home that was not known when the object was reserved. False if the object is not here.
  bool set_home(ObjectId object, NodeId home);
  // Takes over all of it or, on failure, nothing: not_found (unknown process), already_exists (the
  // slab, or an object elsewhere), permission_denied, invalid_argument (places that overlap or lie
  // outside). The process holds the objects; those wanted before are sealed now.
  Result<void> adopt(const Adoption& adoption);

  const ObjectRow* find(ObjectId object) const { return objects_.find(object); }
  // The row, if this process may read it: not_found, permission_denied, or the object's own
  // failure.
  Result<const ObjectRow*> lookup(ProcessId process, ObjectId object) const;
  const Table<ObjectId, ObjectRow>& objects() const { return objects_; }
  const SlabSpace& space() const { return space_; }
  const std::map<JobId, JobUse>& jobs() const { return jobs_; }
  // Of objects that are on disk alone.
  std::uint64_t spilled_bytes() const { return spilled_bytes_; }
  bool knows_process(ProcessId process) const { return processes_.contains(process); }
  // Over all holds of nodes and upstreams, whatever their order: equal digests, equal holds.
  Hash128 shared_digest() const { return shared_digest_; }

 private:
  struct ProcessRow {
    JobId job;  // empty: the agent
    std::set<ObjectId> held;
  };

  Result<ProcessRow*> process_for(ProcessId process);
  Result<const ProcessRow*> process_for(ProcessId process) const;
  bool may_read(const ProcessRow& process, const ObjectRow& object) const;
  Result<void> check_reserve(const ReserveRequest& request) const;
  Result<void> check_adoption(const Adoption& adoption, JobId job) const;
  Result<void> check_hold_limit(ProcessId process, const ProcessRow& row, ObjectId object) const;
  void set_upstream(ObjectId object, ObjectRow& row, NodeId upstream);
  void book(const ObjectRow& row);
  void unbook(ObjectRow& row);
  void book_spilled(ObjectRow& row);
  void unbook_spilled(ObjectRow& row);
  void free_place(ObjectRow& row, SlabChanges& out);
  void withdraw_released(SlabChanges& changes) const;
  void unhold(ProcessId process, ObjectId object, Consequences& out);
  void unhold_node(NodeId node, ObjectId object, Consequences& out);
  void erase_unheld(ObjectId object, Consequences& out);
  void digest(ObjectId object, NodeId node, std::string_view kind, bool add);

  TableOptions options_;
  SlabSpace space_;
  Table<ObjectId, ObjectRow> objects_;
  Table<ProcessId, ProcessRow> processes_;
  std::map<JobId, JobUse> jobs_;  // those with at least one place, or object on disk
  std::uint64_t spilled_bytes_ = 0;
  Hash128 shared_digest_;
};

}  // namespace mobula::internal
