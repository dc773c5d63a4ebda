// Objects of this node: the object table with the holds of its processes, and the agreement between nodes about them.
// The home of an object, the node of its owner's agent, tracks its holders and replicas. A node that borrows an object
// takes one hold at the home for all its processes. The store of an object that contains refs holds these refs, too.
// Memory is freed by dropping replicas first, then by spilling objects that no process reads.
// Thread: owner (WorkerCore). Errors: every wait ends with the bytes or with a failure that names its cause.
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
#include "worker/core/object_entry.h"
#include "worker/core/peers.h"
#include "worker/core/processes.h"
#include "worker/core/transfers.h"

namespace mobula::internal::worker {

class Objects {
 public:
  Objects(Outbox& outbox, const WorkerOptions& options, HeadSession& head, Processes& processes,
          Peers& peers, Transfers& transfers, const Started& self);

  // ---- processes of this node ------------------------------------------------------------------
  void add_process(ProcessId process, JobId job) { table_.add_process(process, job); }
  // Also fails what the process owned and had not made yet. What it held and may have passed on
  // stays for a while if its end was `sudden`: nobody has said that he holds it instead.
  void process_gone(ProcessId process, bool sudden);
  void reserve(ProcessId process, const ReserveObject& message);
  void seal(ProcessId process, const SealObject& message);
  void export_object(ProcessId process, const ExportObject& message);
  void hold(ProcessId process, const HoldObject& message);
  // The process does not wait for memory for this object any more.
  void abandon_write(ProcessId process, ObjectId object);
  void release(ProcessId process, ObjectId object);
  void fetch(ProcessId process, const FetchObject& message);
  void cancel_fetch(ProcessId process, ObjectId object);
  void place_returned(ProcessId process, const PlaceReturned& message);
  void unmapped(ProcessId process, std::uint64_t slab);

  // ---- other nodes -----------------------------------------------------------------------------
  void from_peer(NodeId node, const ResultStored& message);
  void from_peer(NodeId node, const ResultTaken& message);
  void from_peer(NodeId node, const NodeHold& message);
  void from_peer(NodeId node, const NodeHoldConfirmed& message);
  void from_peer(NodeId node, const NodeRelease& message);
  void from_peer(NodeId node, const AskObject& message);
  void from_peer(NodeId node, const ObjectStatus& message);
  void from_peer(NodeId node, const PullRequest& message);
  void from_peer(NodeId node, const PullReady& message) { transfers_.answered(node, message); }
  void from_peer(NodeId node, const ChunksThere& message) { transfers_.more_there(node, message); }
  void from_peer(NodeId node, const PullOver& message);
  void from_peer(NodeId node, const CopyMade& message);
  void from_peer(NodeId node, const CopyLost& message);
  // `cause` for people: "node ab12 died".
  void node_dead(NodeId node, const std::string& cause);

  // ---- the head, the shell, time ---------------------------------------------------------------
  void located(const ObjectLocated& message);
  // The node is drained, or is no longer: what would go with it is brought to nodes that stay.
  void drains(NodeId node, bool on);
  // The head says anew which are.
  void forget_drains();
  // A conversation with the head has begun: copies and questions are stated again.
  void restate();
  // `kept`: processes of the job here that live on. `lingers`: there are more, elsewhere or later.
  void job_ended(JobId job, const std::set<ProcessId>& kept, bool lingers);
  ObjectsListed list(std::uint64_t limit, bool largest_first);
  // Lists the given objects that this node knows, also without bytes.
  ObjectsListed list_these(const std::vector<ObjectId>& objects);
  StoreFact store() const;
  void slab_failed(const SlabFailed& failed);
  // It is the pull's turn: a place is found for it, or waited for.
  void pull_begins(const transfer::BeginPull& begin);
  void pulled(const transfer::PullDone& done);
  // A peer reads here no more.
  void offer_over(ObjectId object);
  void spilled(const SpillFinished& finished);
  void restored(const RestoreFinished& finished);
  void unpin(ObjectId object);
  // At the end of each step, before pulls that have begun are carried out: some more of drained nodes.
  void save_some();
  // At the end of each step: places that have become free are given to who waits for them, and
  // more is made free if need be.
  void finish_step();
  void tick();
  // This process did not run meanwhile: nobody could make room, or return a place in time.
  void shift_deadlines(Duration gap);
  std::optional<Time> next_deadline() const;

  struct Left {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  Left left_to_others() const;  // what others have to get from this node, while it is drained

  const ObjectTable& table() const { return table_; }
  std::size_t entries() const { return entries_.size(); }
  std::size_t pins() const;
  // At home: objects that readers await although no node has the bytes, no failure is recorded and no
  // search for replicas runs. Their owner must be computing them.
  std::vector<std::pair<ObjectId, ProcessId>> awaited_without_bytes() const;  // with the owner
  const SpillFiles& spill_files() const { return files_; }
  std::size_t moving() const { return restores_.size() + spill_.items.size(); }  // to and from disk
  bool in_place(ProcessId process, ObjectId object) const;  // whether it may be reading the bytes there
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
  // A place that has to wait until there is room, or a process has unmapped an empty slab.
  struct Waiting {
    ReserveRequest request;
    Time since;
  };
  // The file that is being written.
  struct Spill {
    SpillFileId file = 0;  // 0: none is
    std::vector<ObjectId> items{};
    Time started{};
    std::optional<Failure> failure{};  // of the last one
    Time again_at{};                   // after that: not before
  };
  static constexpr std::size_t max_waiting_for_room = 4096;
  static constexpr int max_tries = 3;
  static constexpr std::size_t max_unheld_actors = 1024;
  static constexpr std::size_t max_saving = 16;  // pulls from drained nodes at a time that nobody waits for
  static constexpr std::size_t max_fetchers = 16;  // remembered, and
  static constexpr std::size_t told_fetchers = 2;  // told to one more
  static constexpr int max_waits = 30;  // times the patience of who waits for room, in all
  // Between two looks at all objects of which the first found nothing that could leave.
  static constexpr Duration look_again_after = 1ms;
  static constexpr Duration look_again_idly_after = 100ms;

  // Everywhere.
  bool at_home(const ObjectEntry& entry) const { return entry.home == self_; }
  bool sealed(ObjectId object) const;
  bool here(ObjectId object) const;
  ObjectEntry* find(ObjectId object) { return entries_.find(object); }
  // The entry of an object this process now holds; null if the table refused, with `why`.
  ObjectEntry* hold_for(ProcessId process, const RefRecord& ref, Failure& why);
  void learn(ObjectEntry& entry, const RefRecord& ref) const;
  bool pin(ObjectId object);
  void pin_contained(ObjectId object);
  void drain_unpins();
  // A pin for holders that we do not know of yet.
  void keep_for(ObjectId object, Duration span);
  void apply(Consequences consequences);
  void gone(ObjectId object);
  // After a hold has gone: releases the node's hold, cancels a pull that nobody waits for.
  void settle(ObjectId object);
  void drop_slab(SlabId slab);
  void retire(const std::vector<RetiredSlab>& slabs);
  void watch_idle_memory();
  void give_back_idle_memory();
  Time start_timer(ObjectId object, TimerKind kind, Duration after);
  void fire(const Timer& timer);

  // Places. Nothing: room is being made, or may be.
  Result<std::optional<Place>> place(const ReserveRequest& request);
  std::uint64_t kept_bytes() const;
  bool room_may_come() const;
  void retry_waiting();
  void refuse_overdue();
  Time patience_ends(const Waiting& waiting) const;
  // For people: why nothing leaves the store.
  std::string why_no_room();
  void answer_reserved(ProcessId process, ObjectId object);
  void refuse_place(const ReserveRequest& request, const Failure& why);
  void place_found(const ReserveRequest& request, const Place& place);
  bool wait_for_room(const ReserveRequest& request);

  // Memory.
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

  // Reading.
  void answer_readable(ProcessId process, ObjectId object, std::uint64_t fetch);
  void fail_readers(ObjectId object, const Failure& why);
  Failure tensor_not_here() const;
  // Somebody here wants the bytes: does what brings them nearer, if nothing is under way.
  void seek(ObjectId object);
  void ask(ObjectId object, NodeId node);
  void begin_pull(ObjectId object);
  // Who waited for room, to pull it or to read it back, has given up.
  void abandon(ObjectId object, const Failure& why);
  bool offer_partial(NodeId reader, std::uint64_t ask, ObjectId object);
  // The bytes are here now.
  void became_sealed(ObjectId object);
  void report_copy(ObjectId object, bool present);

  // Of drained nodes.
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
  // What `asker` is told; it is going to fetch it.
  ObjectStatus status_for(NodeId asker, ObjectId object, ObjectEntry& entry, const std::vector<NodeId>& unread = {}) const;
  void fetches_no_more(ObjectEntry& entry, NodeId node) const { std::erase(entry.fetchers, node); }
  // The one place where the home removes a location from its list, after a release, a loss, a death, a
  // failed pull or a drain. The owner learns when the last location is gone.
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
  std::map<ObjectId, HoldsAsked> holds_asked_;  // also of entries forgotten since
  std::set<Timer> timers_;
  std::deque<Waiting> waiting_;
  Time progress_at_, asked_at_;  // memory became free; processes were asked to return some
  SpillFiles files_;
  Spill spill_;
  std::map<std::uint64_t, Restore> restores_;
  std::uint64_t last_restore_ = 0;
  bool room_due_ = false;             // what is short, or can leave, may have changed
  std::optional<Time> look_at_;       // then again: who was asked for a place may not return it
  Time looked_at_;
  std::optional<Time> idle_look_at_;  // whether the store's empty memory rests
  bool found_nothing_ = false;  // that could leave
  std::set<ObjectId> copies_added_, copies_removed_;
  std::optional<Time> report_copies_at_;
  bool retry_due_ = false;
  std::map<std::uint64_t, SlabId> retiring_;  // by number: processes were told to unmap them
  std::vector<ObjectId> unpins_;              // to do; chains of objects are not recursion
  bool draining_ = false;
  std::set<NodeId> drained_;
  std::deque<std::pair<ObjectId, int>> to_save_;  // and how often it was tried
  std::map<ObjectId, int> saving_;                // likewise; pulls under way
  std::map<ActorId, EntrustedActor> entrusted_;
  std::deque<ActorId> unheld_actors_;  // latest ones, which the head may not know yet
  std::map<JobId, std::set<ProcessId>> ended_jobs_;  // with processes that live on
};

}  // namespace mobula::internal::worker
