// The ways by which this process can exchange tensors, and what others can: transports with the channels
// that are open to peers, and the choice among them. For the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "protocol/region_messages.h"
#include "transfer/core/path_choice.h"
#include "transport/direct/arena.h"
#include "transport/direct/receive_pool.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal::exchange {

struct PathOptions {
  ProcessId process;
  std::string socket;     // of shared memory; empty: none
  std::string host_bind;  // of connections from other machines; empty: the loopback
  std::string fabric;     // trusted network of its node; empty: none
};

// Elements that have come: readable as long as the owner lives.
struct Elements {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // shared by the tensors over them
  bool in_place = false;              // where the holder has them
  bool encrypted = false;             // on their way
  MappedFile file = {};               // in place: what they lie in
};

class TensorPaths {
 public:
  TensorPaths(EventLoop& loop, PathOptions options);
  // Ends transfers without an answer.
  ~TensorPaths();

  const RegionReach& reach() const { return reach_; }
  // Memory that processes of this machine can read in place; null where there is none.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  void met(ProcessId peer, const RegionReach& reach) { peers_[peer] = reach; }
  void gone(ProcessId peer);
  bool knows(ProcessId peer) const { return peers_.contains(peer); }
  transfer::PathChoice choose(ProcessId holder, const DirectWish& wish) const;

  // ---- as a holder ----
  using Offered = std::function<void(Result<std::string> ticket)>;
  // Fails at once, without an answer, for a path that is not there.
  Result<TransferId> offer(DirectPath path, ProcessId peer, const SourceRegion& region, Offered offered);
  void release(DirectPath path, TransferId transfer, std::function<void()> quiet);

  // ---- as a receiver ----
  using Fetched = std::function<void(Result<Elements>)>;
  struct Fetch {
    DirectPath path = DirectPath::shm;
    ProcessId holder;
    std::string_view ticket;  // read within the call
    std::uint64_t size_bytes = 0;
    bool in_place = false;    // where they can be had so
  };
  // Fails at once, without an answer, for a path or a ticket that is none.
  Result<TransferId> fetch(const Fetch& wanted, Fetched fetched);
  // fetch() is still answered.
  void cancel(TransferId transfer);

 private:
  struct Fetching;

  void add(DirectPath path, Result<std::unique_ptr<TensorTransport>> transport);
  TensorTransport* transport(DirectPath path) const;
  Peer peer_of(ProcessId process, DirectPath path) const;
  bool is_trusted(const RegionReach& peer) const;
  transfer::ProcessReach reach_of(ProcessId process, const RegionReach& reach) const;
  void begin(const std::shared_ptr<Fetching>& fetching);
  void pull(const std::shared_ptr<Fetching>& fetching);
  void answer(const std::shared_ptr<Fetching>& fetching, Result<Elements> result);

  const PathOptions options_;
  RegionReach reach_;
  std::shared_ptr<Arena> arena_;  // shared with tensors that lie in it
  ReceivePool pool_;
  std::map<ProcessId, RegionReach> peers_;
  std::map<TransferId, std::shared_ptr<Fetching>> fetching_;  // shared with the answers that are due
  std::map<DirectPath, std::unique_ptr<TensorTransport>> transports_;
};

}  // namespace mobula::internal::exchange
