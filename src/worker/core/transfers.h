// Bytes between nodes, both ways: what this node pulls (transfer/core decides, this asks peers and
// the shell) and what it offers to peers that pull from it. Part of WorkerCore. What has begun or
// ended is kept for the core to take at the end of its step.
//
// At most `max_offers` peers read here at once; others are told resource_exhausted, and ask again.
// Of an object that is still being pulled a peer may read the chunks that are there, and is told of
// more. Where such a pull fails its end is held back until nobody reads from its place any more.
//
// Of objects that came here, or did not, the latest are remembered, for lists and timelines; what is on its way is told
// to who asks for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/table.h"
#include "store/core/slab_space.h"
#include "transfer/core/pull_queue.h"
#include "transfer/core/transfer_books.h"
#include "worker/core/outbox.h"
#include "worker/core/peers.h"

namespace mobula::internal::worker {

class Transfers {
 public:
  Transfers(Outbox& outbox, const WorkerOptions& options, Peers& peers);
  // Bytes travel plain, with checksums, from now on, or sealed.
  void trust_fabric(bool trusted) { trusted_ = trusted; }

  // ---- to this node ----------------------------------------------------------------------------
  // Its room is asked for by `take_begun`.
  Result<transfer::PullId> pull_object(ObjectId object, std::uint64_t size_bytes,
                                       const std::vector<NodeId>& sources, bool argument);
  void placed(transfer::PullId pull, const Place& place);
  void waits_for_room(transfer::PullId pull);
  void refused(transfer::PullId pull, Failure why);
  Result<transfer::PullId> pull_file(const ProgramFile& file, NodeId source);
  void unwant(transfer::PullId pull);
  void hurry(transfer::PullId pull) { queue_.hurry(pull); }
  // This node is getting the same object.
  void add_source(transfer::PullId pull, NodeId node);
  void answered(NodeId from, PullReady ready);
  void more_there(NodeId from, const ChunksThere& news);
  void fetched(const ChunkFetched& fetched);
  void finished(const PullFinished& finished);

  // ---- from this node --------------------------------------------------------------------------
  // `place`: of an object that the caller has pinned; it is in `take_unread` when the offer is over.
  // Sealed, or, with `pull`, being pulled and already placed. False, and the peer is told to ask
  // again: too many read here.
  bool offer_object(NodeId reader, std::uint64_t ask, ObjectId object, const Place& place,
                    transfer::PullId pull = 0);
  void offer_file(NodeId reader, std::uint64_t ask, Hash128 file);
  void refuse(NodeId reader, std::uint64_t ask, Failure why);
  void offered(const BulkOffered& offered);
  void over(NodeId reader, std::uint64_t ask);
  void served(std::uint64_t offer);

  // ---- what has come ---------------------------------------------------------------------------
  void remember(const transfer::PullDone& done, JobId job);
  // What is on its way, where that is asked for, and what has ended.
  using JobOf = std::function<JobId(ObjectId)>;
  TransfersTold told(const AskTransfers& asked, const JobOf& job_of) const;
  bool remembers() const { return !books_.empty(); }
  // Of all that has come, since the agent started.
  std::vector<TransferCount> counts() const { return books_.counted().counts; }

  void node_dead(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const { return queue_.next_deadline(); }

  std::vector<transfer::BeginPull> take_begun() { return std::exchange(begun_, {}); }
  std::vector<transfer::PullDone> take_done() { return std::exchange(done_, {}); }
  std::vector<ObjectId> take_unread() { return std::exchange(unread_, {}); }
  // Whether it has a place from which others may read.
  bool is_placed(transfer::PullId pull) const { return places_.contains(pull); }
  const Place& place_of(transfer::PullId pull) const { return places_.at(pull); }
  std::size_t pulls() const { return queue_.size() + withheld_.size(); }
  std::size_t offers() const { return offers_.size(); }
  const transfer::PullQueue& queue() const { return queue_; }

 private:
  struct Offer {
    NodeId reader{};
    std::uint64_t ask = 0;      // the reader's number
    ObjectId object{};          // empty: a file
    transfer::PullId pull = 0;  // by which its bytes are still coming here
    bool answered = false;      // the shell has made a token
    bool recalled = false;      // the reader has been told that it is over
    bool withdrawn = false;
  };

  bool has_room(NodeId reader, std::uint64_t ask);
  void withdraw(std::uint64_t id, Offer& offer);
  void carry_out(std::vector<transfer::PullCommand> commands);
  void carry_out(transfer::BeginPull& begin);
  void carry_out(transfer::AskSource& ask);
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
  std::map<transfer::PullId, Place> places_;  // of objects that are pulled
  std::map<transfer::PullId, transfer::PullDone> withheld_;  // until nobody reads their places
  Table<std::uint64_t, Offer> offers_;
  std::uint64_t next_offer_ = 1;
  std::vector<transfer::BeginPull> begun_;
  std::vector<transfer::PullDone> done_;
  std::vector<ObjectId> unread_;
  transfer::TransferBooks books_;
};

}  // namespace mobula::internal::worker
