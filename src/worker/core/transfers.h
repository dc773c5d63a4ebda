// Bytes between nodes, both ways: what this node pulls (transfer/core decides, this asks peers and
// the shell) and what it offers to peers that pull from it. Part of WorkerCore. What has ended is
// kept for the core to take at the end of its step.
//
// At most `max_offers` peers read here at once; others are told resource_exhausted, and ask again.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/table.h"
#include "store/core/slab_space.h"
#include "transfer/core/pull_queue.h"
#include "worker/core/outbox.h"
#include "worker/core/peers.h"

namespace mobula::internal::worker {

class Transfers {
 public:
  Transfers(Outbox& outbox, const WorkerOptions& options, Peers& peers)
      : outbox_(outbox), options_(options), peers_(peers) {}

  // ---- to this node ----------------------------------------------------------------------------
  Result<transfer::PullId> pull_object(ObjectId object, const Place& place,
                                       const std::vector<NodeId>& sources);
  Result<transfer::PullId> pull_file(const ProgramFile& file, NodeId source);
  void unwant(transfer::PullId pull);
  void answered(NodeId from, const PullReady& ready);
  void finished(const PullFinished& finished);

  // ---- from this node --------------------------------------------------------------------------
  // `place`: of a sealed object that the caller has pinned; it is in `take_unread` when the offer
  // is over. False, and the peer is told to ask again: too many read here.
  bool offer_object(NodeId reader, std::uint64_t pull, ObjectId object, const Place& place);
  void offer_file(NodeId reader, std::uint64_t pull, Hash128 file);
  void refuse(NodeId reader, std::uint64_t pull, Failure why);
  void offered(const BulkOffered& offered);
  void served(std::uint64_t offer);

  void node_dead(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const;

  std::vector<transfer::PullDone> take_done() { return std::exchange(done_, {}); }
  std::vector<ObjectId> take_unread() { return std::exchange(unread_, {}); }
  std::size_t pulls() const { return queue_.size(); }
  std::size_t offers() const { return offers_.size(); }

 private:
  struct Offer {
    NodeId reader{};
    std::uint64_t pull = 0;  // the reader's number
    ObjectId object{};       // empty: a file
    bool answered = false;   // the shell has made a token
    bool withdrawn = false;
  };

  bool has_room(NodeId reader, std::uint64_t pull);
  void withdraw(std::uint64_t id, Offer& offer);
  void carry_out(std::vector<transfer::PullCommand> commands);

  Outbox& outbox_;
  const WorkerOptions& options_;
  Peers& peers_;
  transfer::PullQueue queue_;
  std::map<ObjectId, Place> places_;  // of objects that are pulled
  Table<std::uint64_t, Offer> offers_;
  std::uint64_t next_offer_ = 1;
  std::vector<transfer::PullDone> done_;
  std::vector<ObjectId> unread_;
};

}  // namespace mobula::internal::worker
