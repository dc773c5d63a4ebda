// The objects of this node: the object table with its process holds, and around it what nodes agree
// on. Part of WorkerCore.
//
// The home of an object is the node of its owner's agent. There the entry says who holds it
// (processes here, other nodes) and who has its bytes (this node, keepers that keep them for us,
// copies). A node where a process borrows it asks the home for a hold, once for all its processes,
// and gives it back with its last one. Whoever stores an object that contains references holds
// those, too. Everything that waits here ends: with the bytes, or with a failure that names the
// cause.
//
// Bounds: entries by the holds of processes; waiting reservations by `max_waiting_for_room`.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "store/core/object_table.h"
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
  void release(ProcessId process, ObjectId object);
  void fetch(ProcessId process, const FetchObject& message);
  void cancel_fetch(ProcessId process, ObjectId object);
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
  // `cause` for people: "node ab12 died".
  void node_dead(NodeId node, const std::string& cause);

  // ---- the head, the shell, time ---------------------------------------------------------------
  void located(const ObjectLocated& message);
  // A conversation with the head has begun: copies and questions are stated again.
  void restate();
  // `kept`: processes of the job here that live on. `lingers`: there are more, elsewhere or later.
  void job_ended(JobId job, const std::set<ProcessId>& kept, bool lingers);
  // At most `limit` of them, in the order of their ids.
  ObjectsListed list(std::uint64_t limit) const;
  void slab_failed(const SlabFailed& failed);
  void pulled(const transfer::PullDone& done);
  void unpin(ObjectId object);
  // At the end of each step: places that have become free are given to who waits for them.
  void finish_step();
  void tick();
  std::optional<Time> next_deadline() const;

  const ObjectTable& table() const { return table_; }
  std::size_t entries() const { return entries_.size(); }
  std::size_t pins() const;
  std::set<JobId> jobs() const;

 private:
  enum class TimerKind : unsigned char { claim, locate, orphan };
  struct Timer {
    Time at;
    TimerKind kind;
    ObjectId object;
    friend auto operator<=>(const Timer&, const Timer&) = default;
  };
  // A place that has to wait until a process has unmapped an empty slab.
  struct Waiting {
    ReserveRequest request;
    Time until;
  };
  struct HoldsAsked {
    NodeId home;
    int count = 0;  // NodeHolds not answered yet
  };
  static constexpr std::size_t max_waiting_for_room = 4096;
  static constexpr int max_tries = 3;

  // Everywhere.
  bool at_home(const ObjectEntry& entry) const { return entry.home == self_; }
  bool sealed(ObjectId object) const;
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
  // When it will fire.
  Time start_timer(ObjectId object, TimerKind kind, Duration after);
  void fire(const Timer& timer);

  // Places.
  Result<std::optional<Place>> place(const ReserveRequest& request);
  void retry_waiting();
  void answer_reserved(ProcessId process, ObjectId object);
  void refuse_place(const ReserveRequest& request, const Failure& why);
  void place_found(const ReserveRequest& request, const Place& place);
  bool wait_for_room(const ReserveRequest& request);

  // Reading.
  void answer_readable(ProcessId process, ObjectId object);
  void fail_readers(ObjectId object, const Failure& why);
  // Somebody here wants the bytes: does what brings them nearer, if nothing is under way.
  void seek(ObjectId object);
  void ask(ObjectId object, NodeId node);
  void begin_pull(ObjectId object);
  void start_transfer(ObjectId object, const Place& place);
  void abandon_pull(ObjectId object, const Failure& why);
  // The bytes are here now.
  void became_sealed(ObjectId object);
  void report_copy(ObjectId object, bool present);

  // At home.
  bool has_bytes_somewhere(ObjectId object, const ObjectEntry& entry) const;
  void claim(ObjectId object, ProcessId owner);
  void wait_for_claim(ObjectId object);
  ObjectEntry& placeholder(ObjectId object);
  void answer_askers(ObjectId object);
  ObjectStatus status_of(ObjectId object, const ObjectEntry& entry) const;
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
  std::vector<ObjectId> copies_added_, copies_removed_;
  std::optional<Time> report_copies_at_;
  bool retry_due_ = false;
  std::map<std::uint64_t, SlabId> retiring_;  // by number: processes were told to unmap them
  std::vector<ObjectId> unpins_;              // to do; chains of objects are not recursion
  bool draining_ = false;
  std::map<JobId, std::set<ProcessId>> ended_jobs_;  // with processes that live on
};

}  // namespace mobula::internal::worker
