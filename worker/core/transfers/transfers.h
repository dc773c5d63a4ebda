// Bytes between nodes: pulls of this node (PullQueue decides; this class sends to peers and to the
// shell), and offers to peers. Begun and finished pulls are collected until the end of the step. At
// most `max_offers` peers read at once; others receive resource_exhausted and retry. A peer may
// read the available chunks of an object that is still being pulled, and is notified of further
// chunks. If such a pull fails, its end is reported after the last read of its memory. The latest
// finished pulls are logged.
// Thread: owner (WorkerCore). Units: bytes. Errors: PullDone carries the failure of a pull.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/containers/table.h"
#include "protocol/transfer_log.h"
#include "store/core/slab_space.h"
#include "worker/core/outbox.h"
#include "worker/core/peers.h"
#include "worker/core/transfers/pull_queue.h"

namespace mobula::internal::worker {

class Transfers {
 public:
  Transfers(Outbox& outbox, const WorkerOptions& options, Peers& peers);
  // True: bytes travel unencrypted with checksums. False: encrypted.
  void trust_fabric(bool trusted) { trusted_ = trusted; }

  // ---- to this node -----------------------------------------------------------------------------
  // The pull requests its memory through `take_begun`.
  Result<transfer::PullId> pull_object(ObjectId object, std::uint64_t size_bytes,
                                       const std::vector<NodeId>& sources, bool argument);
  void placed(transfer::PullId pull, const ObjectLocation& location);
  void waits_for_space(transfer::PullId pull);
  void refused(transfer::PullId pull, Failure why);
  Result<transfer::PullId> pull_file(const ProgramFile& file, NodeId source);
  void unwant(transfer::PullId pull);
  void cancel(transfer::PullId pull);  // with any count of readers
  void hurry(transfer::PullId pull) { queue_.hurry(pull); }
  // Adds a node that is pulling the same object.
  void add_source(transfer::PullId pull, NodeId node);
  void answered(NodeId from, PullReply ready);
  void more_there(NodeId from, const ChunksAvailable& news);
  void fetched(const ChunkFetched& fetched);
  void finished(const PullFinished& finished);

  // ---- from this node ---------------------------------------------------------------------------
  // `location`: that of an object that the caller has pinned; `take_unread` returns it at the
  // end of the offer. The object is sealed or, with `pull`, still being pulled and already placed.
  // Returns false at the offer limit, after telling the peer to retry.
  bool offer_object(NodeId reader, std::uint64_t request, ObjectId object,
                    const ObjectLocation& location, transfer::PullId pull = 0);
  void offer_file(NodeId reader, std::uint64_t request, Hash128 file);
  void refuse(NodeId reader, std::uint64_t request, Failure why);
  void offered(const BulkOffered& offered);
  void over(NodeId reader, std::uint64_t request);
  void served(std::uint64_t offer);

  // ---- transfer log -----------------------------------------------------------------------------
  void remember(const transfer::PullDone& done, JobId job);
  // Transfers in progress, if requested, and finished ones.
  using JobOf = std::function<JobId(ObjectId)>;
  TransfersReply reply_to(const TransfersRequest& query, const JobOf& job_of) const;
  bool remembers() const { return !log_.empty(); }
  // Counters of all finished pulls since the start of the agent.
  std::vector<TransferCount> counts() const { return log_.counted().counts; }

  void node_dead(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const { return queue_.next_deadline(); }

  std::vector<transfer::BeginPull> take_begun() { return std::exchange(begun_, {}); }
  std::vector<transfer::PullDone> take_done() { return std::exchange(done_, {}); }
  std::vector<ObjectId> take_unread() { return std::exchange(unread_, {}); }
  // True if the pull has memory from which peers may read.
  bool is_placed(transfer::PullId pull) const { return locations_.contains(pull); }
  const ObjectLocation& location_of(transfer::PullId pull) const { return locations_.at(pull); }
  std::size_t pulls() const { return queue_.size() + withheld_.size(); }
  std::size_t offers() const { return offers_.size(); }
  const transfer::PullQueue& queue() const { return queue_; }

 private:
  struct Offer {
    NodeId reader{};
    std::uint64_t request = 0;  // request number of the reader
    ObjectId object{};          // empty: a file
    transfer::PullId pull = 0;  // pull that still delivers the bytes; 0: complete
    bool answered = false;      // the shell has created an access token
    bool recalled = false;      // the end was sent to the reader
    bool withdrawn = false;
  };

  bool has_slot(NodeId reader, std::uint64_t request);
  void withdraw(std::uint64_t id, Offer& offer);
  void carry_out(std::vector<transfer::PullCommand> commands);
  void carry_out(transfer::BeginPull& begin);
  void carry_out(transfer::RequestSource& source);
  void carry_out(transfer::ReleaseSource& release);
  void carry_out(transfer::FetchChunk& fetch);
  void carry_out(transfer::CutChunk& cut);
  void carry_out(transfer::ChunkThere& there);
  void carry_out(transfer::CompletePull& complete);
  void carry_out(transfer::PullDone& done);
  void recall(Offer& offer, std::uint64_t id);

  Outbox& outbox_;
  const WorkerOptions& options_;
  Peers& peers_;
  bool trusted_ = false;
  transfer::PullQueue queue_;
  std::map<transfer::PullId, ObjectLocation> locations_;  // memory of objects that are being pulled
  std::map<transfer::PullId, transfer::PullDone> withheld_;  // failed; peers still read
  Table<std::uint64_t, Offer> offers_;
  std::uint64_t next_offer_ = 1;
  std::vector<transfer::BeginPull> begun_;
  std::vector<transfer::PullDone> done_;
  std::vector<ObjectId> unread_;
  transfer::TransferLog log_;
};

}  // namespace mobula::internal::worker
