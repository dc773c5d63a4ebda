// Objects of this node: the object table with the holds of its processes, and the agreement between
// nodes about them. The home of an object, the node of its owner's agent, tracks its holders and
// replicas. A node that borrows an object takes one hold at the home for all its processes. The
// store of an object that contains refs holds these refs, too. Memory is freed by dropping replicas
// first, then by spilling objects that no process reads.
// Thread: owner (WorkerCore). Errors: every wait ends with bytes or with a failure and its cause.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/core/eviction.h"
#include "store/core/object_table.h"
#include "store/core/spill_files.h"
#include "worker/core/head_session.h"
#include "worker/core/objects/object_entry.h"
#include "worker/core/peers.h"
#include "worker/core/processes.h"
#include "worker/core/transfers/transfers.h"

namespace mobula::internal::worker {

class Objects {
 public:
  Objects(Outbox& outbox, const WorkerOptions& options, HeadSession& head, Processes& processes,
          Peers& peers, Transfers& transfers, const Started& self);

  // ---- processes of this node -------------------------------------------------------------------
  void add_process(ProcessId process, JobId job) { table_.add_process(process, job); }
  // Also fails objects that the process owned and had not produced. If the end was `sudden`, its
  // holds remain for `unclaimed_delay`, because refs that it sent may not be registered yet.
  void process_gone(ProcessId process, bool sudden);
  void reserve(ProcessId process, const ReserveObjectRequest& message);
  void seal(ProcessId process, const SealObjectRequest& message);
  void export_object(ProcessId process, const ExportObject& message);
  void hold(ProcessId process, const HoldObjectRequest& message);
  // The process no longer waits for memory for this object.
  void abandon_write(ProcessId process, ObjectId object);
  void release(ProcessId process, ObjectId object);
  void fetch(ProcessId process, const FetchObjectRequest& message);
  void cancel_fetch(ProcessId process, ObjectId object);
  void place_returned(ProcessId process, const UnpinReply& message);
  void unmapped(ProcessId process, std::uint64_t slab);

  // ---- other nodes ------------------------------------------------------------------------------
  void from_peer(NodeId node, const StoreResultRequest& message);
  void from_peer(NodeId node, const StoreResultReply& message);
  void from_peer(NodeId node, const NodeHoldRequest& message);
  void from_peer(NodeId node, const NodeHoldReply& message);
  void from_peer(NodeId node, const NodeRelease& message);
  void from_peer(NodeId node, const ObjectStatusRequest& message);
  void from_peer(NodeId node, const ObjectStatusReply& message);
  void from_peer(NodeId node, const PullRequest& message);
  void from_peer(NodeId node, const PullReply& message) { transfers_.answered(node, message); }
  void from_peer(NodeId node, const ChunksAvailable& message) {
    transfers_.more_there(node, message);
  }
  void from_peer(NodeId node, const PullComplete& message);
  void from_peer(NodeId node, const ReplicaAdded& message);
  void from_peer(NodeId node, const ReplicaLost& message);
  // `cause` is human-readable: "node ab12 died".
  void node_dead(NodeId node, const std::string& cause);

  // ---- the head, the shell, time ----------------------------------------------------------------
  void located(const LocateObjectReply& message);
  // The drain of the node begins or ends. Bytes that a drained node would lose move to nodes that
  // stay.
  void drains(NodeId node, bool on);
  // Forgets drained nodes; the head states them again.
  void forget_drains();
  // A session with the head has begun: states replicas and open queries again.
  void restate();
  // `kept`: processes of the job that live on here. `lingers`: others exist elsewhere or may start
  // later.
  void job_ended(JobId job, const std::set<ProcessId>& kept, bool lingers);
  ObjectsReply list(std::uint64_t limit, bool largest_first);
  // Lists the given objects that this node knows, also without bytes.
  ObjectsReply list_these(const std::vector<ObjectId>& objects);
  StoreFact store() const;
  void slab_failed(const SlabFailed& failed);
  // The pull's turn: reserves memory for it, or waits for memory.
  void pull_begins(const transfer::BeginPull& begin);
  void pulled(const transfer::PullDone& done);
  // A peer has finished its read here.
  void offer_over(ObjectId object);
  void spilled(const SpillFinished& finished);
  void restored(const RestoreFinished& finished);
  void unpin(ObjectId object);
  // End of each step, before begun pulls are carried out: copies more objects off drained nodes.
  void save_some();
  // End of each step: assigns free memory to waiting requests, and frees more if necessary.
  void finish_step();
  void tick();
  // The agent did not run for `gap`: no process could free memory or return a location in that
  // time.
  void shift_deadlines(Duration gap);
  std::optional<Time> next_deadline() const;

  struct Left {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  Left left_to_others() const;  // still to be copied off this drained node

  const ObjectTable& table() const { return table_; }
  std::size_t entries() const { return entries_.size(); }
  std::size_t pins() const;
  // At home: objects that readers await although no node has the bytes, no failure is recorded and
  // no search for replicas runs. Their owner must be computing them.
  std::vector<std::pair<ObjectId, ProcessId>> awaited_without_bytes() const;  // with the owner
  const SpillFiles& spill_files() const { return files_; }
  std::size_t moving() const { return restores_.size() + spill_.items.size(); }  // to and from disk
  bool in_place(ProcessId process, ObjectId object) const;  // may be reading in place
  std::set<JobId> jobs() const;
  std::vector<EntrustedActor> entrusted() const;  // until their jobs end

 private:
  enum class TimerKind : unsigned char { claim, locate, orphan };
  struct Timer {
    Time at;
    TimerKind kind;
    ObjectId object;
    friend auto operator<=>(const Timer&, const Timer&) = default;
  };
  // A reservation that waits for free memory, for a process to unmap an empty slab, or for another
  // writer of the object.
  struct Waiting {
    ReserveRequest request;
    Time since;
  };
  // The spill file that is being written.
  struct Spill {
    SpillFileId file = 0;  // 0: no write in progress
    std::vector<ObjectId> items{};
    Time started{};
    std::optional<Failure> failure{};  // failure of the last write
    Time again_at{};                   // earliest retry after `failure`
  };
  static constexpr std::size_t max_waiting_for_room = 4096;
  static constexpr int max_tries = 3;
  static constexpr std::size_t max_unheld_actors = 1024;
  static constexpr std::size_t max_saving = 16;            // concurrent pulls of drained objects
  static constexpr std::size_t max_fetchers = 16;          // remembered fetching nodes
  static constexpr std::size_t max_reported_fetchers = 2;  // fetching nodes named in a reply
  static constexpr int max_waits = 30;  // maximum wait for memory, in multiples of the timeout
  // Intervals between scans of all objects, after a scan that found no evictable object.
  static constexpr Duration poll_interval = 1ms;
  static constexpr Duration idle_poll_interval = 100ms;

  bool at_home(const ObjectEntry& entry) const { return entry.home == self_; }
  bool sealed(ObjectId object) const;
  bool here(ObjectId object) const;
  ObjectEntry* find(ObjectId object) { return entries_.find(object); }
  // The entry of an object that this process now holds; null if the table rejected the hold.
  ObjectEntry* hold_for(ProcessId process, const RefRecord& ref, Failure& why);
  void learn(ObjectEntry& entry, const RefRecord& ref) const;
  bool pin(ObjectId object);
  void pin_contained(ObjectId object);
  void drain_unpins();
  // Pins the object for `span`, for holders that are not registered yet.
  void keep_for(ObjectId object, Duration span);
  void apply(Consequences consequences);
  void gone(ObjectId object);
  // After the end of a hold: releases the node's hold and cancels a pull without readers.
  void settle(ObjectId object);
  void drop_slab(SlabId slab);
  void retire(const std::vector<RetiredSlab>& slabs);
  void watch_idle_memory();
  void give_back_idle_memory();
  Time start_timer(ObjectId object, TimerKind kind, Duration after);
  void fire(const Timer& timer);

  // Memory. An empty result: memory is being freed, or may become free.
  Result<std::optional<Place>> place(const ReserveRequest& request);
  std::uint64_t kept_bytes() const;
  bool room_may_come() const;
  void retry_waiting();
  void retry_blocked_writers();
  void reserve(const ReserveRequest& request);
  void refuse_overdue();
  Time patience_ends(const Waiting& waiting) const;
  std::string why_no_room();
  void answer_reserved(ProcessId process, ObjectId object);
  void refuse_place(const ReserveRequest& request, const Failure& why);
  void place_found(const ReserveRequest& request, const Place& place);
  bool wait_for_room(const ReserveRequest& request);

  // Eviction.
  void make_room();
  Time look_not_before() const;
  std::optional<EvictionGoal> room_needed() const;
  Departure departure(const ObjectRow& row, const ObjectEntry& entry) const;
  bool can_spill() const;
  bool secondary(const ObjectRow& row, const ObjectEntry& entry) const;
  void evict(ObjectId object);
  void ask_back(ObjectId object);
  void start_spill(const std::vector<ObjectId>& objects);
  void restore(ObjectId object);
  void start_restore(ObjectId object, const Place& place);
  void start_waiting_restores();
  void drop_from_disk(ObjectId object);
  void lost_on_disk(ObjectId object, const std::string& cause);
  void offer(NodeId reader, std::uint64_t ask, ObjectId object);
  void refuse_pullers(ObjectId object, const Failure& why);
  ObjectFact fact_of(ObjectId object, const ObjectRow& row);

  void answer_readable(ProcessId process, ObjectId object, std::uint64_t fetch);
  void fail_readers(ObjectId object, const Failure& why);
  Failure tensor_not_here() const;
  // A local reader needs the bytes: takes the next step to obtain them, unless one is in progress.
  void seek(ObjectId object);
  void ask(ObjectId object, NodeId node);
  void begin_pull(ObjectId object);
  // Ends a pull or a restore that waited for memory.
  void abandon(ObjectId object, const Failure& why);
  bool offer_partial(NodeId reader, std::uint64_t ask, ObjectId object);
  // The bytes are available here.
  void became_sealed(ObjectId object);
  void report_copy(ObjectId object, bool present);

  // Drained nodes.
  bool saves(ObjectId object, const ObjectEntry& entry) const;
  void save_if_it_goes(ObjectId object);
  void release_drained_keepers(ObjectId object);
  bool under_way(const ObjectEntry& entry) const;

  // At home.
  void entrust(ObjectEntry& entry, ProcessId process, ActorId actor);
  void tell_entrusted(EntrustedActor news);
  bool has_bytes_somewhere(ObjectId object, const ObjectEntry& entry) const;
  void claim(ObjectId object, ProcessId owner);
  void wait_for_claim(ObjectId object);
  ObjectEntry& placeholder(ObjectId object);
  void answer_askers(ObjectId object);
  // Records `asker` as a fetching node.
  ObjectStatusReply status_for(NodeId asker, ObjectId object, ObjectEntry& entry,
                               const std::vector<NodeId>& unread = {}) const;
  void fetches_no_more(ObjectEntry& entry, NodeId node) const { std::erase(entry.fetchers, node); }
  // The only function with which the home removes a location from its list: after a release, a
  // loss, a death, a failed pull or a drain. Removing the last location notifies the owner.
  void remove_location(ObjectId object, NodeId node, Location which, const std::string& cause);
  bool erase_location(ObjectId object, ObjectEntry& entry, NodeId node, Location which);
  void location_removed(ObjectId object, const std::string& cause);
  void location_added(ObjectId object);
  void remove_all_locations(ObjectId object, const std::string& cause);
  void lost(ObjectId object, const std::string& cause);
  void nothing_left(ObjectId object, const std::string& cause);
  void give_up(ObjectId object, Failure why);

  // Away from home.
  void want_node_hold(ObjectId object, ObjectEntry& entry);
  void confirm_waiters(ObjectId object);
  void locate(ObjectId object);
  void ask_candidate(ObjectId object);
  void home_died(ObjectId object, const std::string& cause);
  void finish_sealers(ObjectId object);

  Outbox& outbox_;
  const WorkerOptions& options_;
  HeadSession& head_;
  Processes& processes_;
  Peers& peers_;
  Transfers& transfers_;
  NodeId self_;
  ProcessId agent_;
  ObjectTable table_;
  Table<ObjectId, ObjectEntry> entries_;
  std::map<ObjectId, HoldsAsked> holds_asked_;  // includes objects whose entries are erased
  std::set<Timer> timers_;
  std::deque<Waiting> waiting_, blocked_writers_;  // for memory; for another writer
  Time progress_at_, asked_at_;                    // last freed memory; last request to return some
  SpillFiles files_;
  Spill spill_;
  std::map<std::uint64_t, Restore> restores_;
  std::uint64_t last_restore_ = 0;
  bool room_due_ = false;        // memory demand or evictable objects may have changed
  std::optional<Time> look_at_;  // next scan, after `return_timeout` for requested locations
  Time looked_at_;
  std::optional<Time> idle_look_at_;  // next check for unused memory of the store
  bool found_nothing_ = false;        // the last scan found no evictable object
  std::set<ObjectId> copies_added_, copies_removed_;
  std::optional<Time> report_copies_at_;
  bool retry_due_ = false;
  std::map<std::uint64_t, SlabId> retiring_;  // by number: slabs that processes must unmap
  std::vector<ObjectId> unpins_;              // pending; a queue prevents recursion
  bool draining_ = false;
  std::set<NodeId> drained_;
  std::deque<std::pair<ObjectId, int>> to_save_;  // (object, failed tries), waiting
  std::map<ObjectId, int> saving_;                // (object, failed tries), pulls in progress
  std::map<ActorId, EntrustedActor> entrusted_;
  std::deque<ActorId> unheld_actors_;                // recently released actors
  std::map<JobId, std::set<ProcessId>> ended_jobs_;  // (job, processes that live on)
};

}  // namespace mobula::internal::worker
