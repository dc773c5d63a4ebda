// The objects of this node: owns the components that decide about them, and routes events and
// messages to these components. They are layers: ObjectDrain, ObjectWrites, ObjectReads,
// HomeDirectory, StoreMemory, ObjectSpill, ObjectHolds. Each calls lower layers directly and higher
// layers through its port, which this class implements.
// Thread: owner (WorkerCore). Errors: every wait ends with bytes or with a failure and its cause.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/core/objects/entrusted_actors.h"
#include "worker/core/objects/home_directory.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_drain.h"
#include "worker/core/objects/object_holds.h"
#include "worker/core/objects/object_reads.h"
#include "worker/core/objects/object_spill.h"
#include "worker/core/objects/object_writes.h"
#include "worker/core/objects/replica_reports.h"
#include "worker/core/objects/store_memory.h"
#include "worker/core/objects/stream_readers.h"

namespace mobula::internal::worker {

class Objects final : ObjectHolds::Port,
                      ObjectSpill::Port,
                      StoreMemory::Port,
                      HomeDirectory::Port,
                      ObjectReads::Port,
                      ObjectWrites::Port {
 public:
  using Left = ObjectDrain::Left;

  // The parts of the agent core that the objects use. They outlive the objects.
  struct Parts {
    Outbox& outbox;
    HeadSession& head;
    Processes& processes;
    Peers& peers;
    Transfers& transfers;
  };

  Objects(const Parts& parts, const WorkerOptions& options, const Started& self);
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  // ---- processes of this node -------------------------------------------------------------------
  void add_process(ProcessId process, JobId job) { context_.table.add_process(process, job); }
  // Releases the holds of a process that has ended, and fails the objects that it owned and had not
  // produced. If it crashed (`sudden`), its holds remain for `unclaimed_delay`, because receivers
  // of its last refs may not have registered them yet.
  void process_gone(ProcessId process, bool sudden);
  void reserve(ProcessId process, const ReserveObjectRequest& message) {
    writes_.on(process, message);
  }
  void seal(ProcessId process, const SealObjectRequest& message) { writes_.on(process, message); }
  void export_object(ProcessId process, const ExportObject& message);
  void hold(ProcessId process, const HoldObjectRequest& message);
  // The process cancels its request for memory for this object.
  void abandon_write(ProcessId process, ObjectId object) { writes_.abandon(process, object); }
  void release(ProcessId process, ObjectId object);
  void fetch(ProcessId process, const FetchObjectRequest& message);
  void cancel_fetch(ProcessId process, ObjectId object) { reads_.cancel_fetch(process, object); }
  void unpinned(ProcessId process, const UnpinReply& message) { memory_.on(process, message); }
  void unmapped(ProcessId process, std::uint64_t slab) { memory_.unmapped(process, slab); }
  void reader_moved(ProcessId process, const ReaderMoved& message) {
    readers_.on(process, message);
  }

  // ---- other nodes ------------------------------------------------------------------------------
  void from_peer(NodeId node, const StoreResultRequest& message) { directory_.on(node, message); }
  void from_peer(NodeId node, const StoreResultReply& message);
  void from_peer(NodeId node, const NodeHoldRequest& message);
  void from_peer(NodeId node, const NodeHoldReply& message);
  void from_peer(NodeId node, const NodeRelease& message) { directory_.on(node, message); }
  void from_peer(NodeId node, const ObjectStatusRequest& message) { directory_.on(node, message); }
  void from_peer(NodeId node, const ObjectStatusReply& message) { reads_.on(node, message); }
  void from_peer(NodeId node, const PullRequest& message);
  void from_peer(NodeId node, const PullReply& message) {
    context_.transfers.answered(node, message);
  }
  void from_peer(NodeId node, const ChunksAvailable& message) {
    context_.transfers.more_there(node, message);
  }
  void from_peer(NodeId node, const PullComplete& message);
  void from_peer(NodeId node, const ReplicaAdded& message) { directory_.on(node, message); }
  void from_peer(NodeId node, const ReplicaLost& message) { directory_.on(node, message); }
  void from_peer(NodeId node, const NodeReaderMoved& message) { readers_.on(node, message); }
  // `cause` is human-readable: "node ab12 died".
  void node_dead(NodeId node, const std::string& cause);

  // ---- the head, the shell, time ----------------------------------------------------------------
  void located(const LocateObjectReply& message) { reads_.on(message); }
  // The drain of a node begins or ends. Objects whose only bytes are on a drained node are copied
  // to other nodes.
  void drains(NodeId node, bool on) { on ? drain_.begin(node) : drain_.end(node); }
  // Clears the list of drained nodes, which a new head then sends again.
  void forget_drains() { drain_.forget(); }
  // A session with the head has begun: sends the list of replicas and the open queries again.
  void restate();
  // `survivors`: processes of the job on this node that outlive it, such as detached actors.
  // `lingers`: further ones exist on other nodes or may start later.
  void job_ended(JobId job, const std::set<ProcessId>& survivors, bool lingers);
  void slab_failed(const SlabFailed& failed) { writes_.on(failed); }
  void pull_begins(const transfer::BeginPull& begin) { reads_.on(begin); }
  void pulled(const transfer::PullDone& done) { reads_.on(done); }
  // A peer has finished its read of this object from this node.
  void offer_over(ObjectId object);
  void spilled(const SpillFinished& finished) { spill_.on(finished); }
  void restored(const RestoreFinished& finished) { spill_.on(finished); }
  // Called at the end of each step, before its pulls start: copies more objects off drained nodes.
  void save_some() { drain_.advance(); }
  // Called at the end of each step: assigns free memory to waiting requests, and evicts if needed.
  void finish_step();
  void tick();
  // The agent was suspended for `gap`: moves deadlines of other processes by that time.
  void shift_deadlines(Duration gap);
  std::optional<Time> next_deadline() const;

  // ---- queries ----------------------------------------------------------------------------------
  ObjectsReply list(std::uint64_t limit, bool largest_first) const;
  // Lists the given objects that this node knows, also without bytes.
  ObjectsReply list_these(const std::vector<ObjectId>& objects) const;
  StoreFact store() const;
  Left left_to_others() const { return drain_.left_to_others(); }
  const ObjectTable& table() const { return context_.table; }
  std::size_t entries() const { return holds_.all().size(); }
  std::size_t pins() const { return holds_.pins(); }
  // Objects of this home, with their owners, that readers await and whose owner must be computing
  // them: no node has the bytes, no failure is recorded, and no search for replicas runs.
  std::vector<std::pair<ObjectId, ProcessId>> awaited_without_bytes() const;
  const SpillFiles& spill_files() const { return spill_.files(); }
  std::size_t moving() const { return spill_.moving(); }  // to and from disk
  // True if the process maps the object, and so may read it.
  bool in_place(ProcessId process, ObjectId object) const { return memory_.maps(process, object); }
  std::set<JobId> jobs() const;
  // Actors that the head entrusted to this node, until their jobs end.
  std::vector<EntrustedActor> entrusted() const { return entrusted_.all(); }

 private:
  // ---- ObjectHolds::Port
  void erased(ObjectId object, const HeldObject& last) override;
  void memory_freed(const SlabChanges& slabs, bool objects_erased) override {
    memory_.freed(slabs, objects_erased);
  }
  void interrupted(ObjectId object) override { reads_.seek_for_readers(object); }
  void only_pinned(ObjectId object) override;
  void ref_arrived(ObjectId object) override { directory_.await_claim(object); }
  // ---- ObjectSpill::Port
  void reserve_restore(const ReserveRequest& request) override;
  void write_ended() override { memory_.check(); }
  void written(ObjectId object) override { memory_.evict_written(object); }
  void restored(ObjectId object) override;
  void restore_failed(ObjectId object, const Failure& why) override;
  void lost_on_disk(ObjectId object, const std::string& cause) override;
  void offer(NodeId reader, std::uint64_t request, ObjectId object) override;
  bool waits_for_memory(ObjectId object) const override { return memory_.awaits(object); }
  // ---- StoreMemory::Port
  void allocated(const ReserveRequest& request, const ObjectLocation& location) override;
  void allocation_refused(const ReserveRequest& request, const Failure& why) override;
  bool stored_elsewhere(ObjectId object, const ObjectRow& row) const override;
  void replica_evicted(ObjectId object) override;
  void evicted(ObjectId object) override;
  // ---- HomeDirectory::Port
  void location_added(ObjectId object) override;
  void location_left(ObjectId object) override { drain_.check(object); }
  void last_location_removed(ObjectId object, const std::string& cause) override {
    reads_.last_location_removed(object, cause);
  }
  void end_search(ObjectId object) override { reads_.end_query(object); }
  void relay(ObjectId object) override { reads_.seek(object); }
  void failed(ObjectId object, const Failure& why) override;
  // ---- ObjectReads::Port, ObjectWrites::Port
  void sealed(ObjectId object) override;
  bool must_save(ObjectId object) const override { return drain_.must_save(object); }
  bool is_saving(ObjectId object) const override { return drain_.is_saving(object); }

  // The row of an object that this process now holds; null if the table rejected the hold.
  HeldObject* hold_for(ProcessId process, const RefRecord& ref, Failure& why);
  void home_died(ObjectId object, const std::string& cause);
  bool offer_partial(NodeId reader, std::uint64_t request, ObjectId object);
  ObjectFact fact_of(ObjectId object, const ObjectRow& row) const;

  ObjectContext context_;
  ObjectHolds holds_{context_, *this};
  ObjectSpill spill_{context_, holds_, *this};
  StoreMemory memory_{context_, holds_, spill_, *this};
  HomeDirectory directory_{context_, holds_, *this};
  ObjectReads reads_{context_, holds_, spill_, memory_, directory_, *this};
  ObjectWrites writes_{context_, holds_, memory_, directory_, reads_, *this};
  ObjectDrain drain_{context_, holds_, memory_, directory_, reads_};
  ReplicaReports reports_{context_};
  StreamReaders readers_{context_};
  EntrustedActors entrusted_{context_};
  std::map<JobId, std::set<ProcessId>> ended_jobs_;  // survivors by ended job
};

}  // namespace mobula::internal::worker
