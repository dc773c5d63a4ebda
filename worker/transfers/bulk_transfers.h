// Bytes between nodes, on separate threads, so that encryption and copies do not delay the agent:
// chunks of remote offers, read directly to their destination, and offers to other nodes. Each
// thread is a lane with one connection to each node, so two nodes have as many connections as
// lanes.
// Thread: the agent's loop, for calls and events. Units: bytes. Not: objects, reactions to
// failures.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/messages/local_control.h"
#include "transport/loop/loop_thread.h"
#include "worker/core/transfers/bulk_command.h"
#include "worker/transfers/bulk_lane.h"

namespace mobula::internal::worker {

class BulkTransfers {
 public:
  // `tell` receives ChunkFetched, PullFinished, BulkOffered and BulkServed on the thread of `loop`.
  // `lanes` ≥ 1.
  static Result<std::unique_ptr<BulkTransfers>> start(EventLoop& loop, std::size_t lanes,
                                                      std::function<void(Event)> tell);
  // Ends all transfers. Afterwards no event is delivered and no memory is accessed.
  ~BulkTransfers();
  BulkTransfers(const BulkTransfers&) = delete;
  BulkTransfers& operator=(const BulkTransfers&) = delete;

  // Maps HOST:0 to HOST:PORT.
  Result<std::string> listen(const std::string& address);

  void offer(std::uint64_t offer, ProcessId reader, bool plain, Result<BulkSource> source);
  void withdraw(std::uint64_t offer);
  // Reads into `space` until the command is complete or cancelled.
  void fetch(const FetchBulk& command, Result<BulkSpace> space);
  void cancel(std::uint64_t chunk);
  // Runs `check`, which may block on the disk, and delivers its result as PullFinished.
  void finish(std::uint64_t pull, std::function<Result<void>()> check);

 private:
  struct Lane {
    std::unique_ptr<LoopThread> thread;
    std::unique_ptr<BulkLane> lane;  // used on its thread only
    std::size_t chunks = 0;          // in progress
  };
  BulkTransfers() = default;
  void on_lane(std::size_t index, std::function<void(BulkLane&)> work);
  bool hand_over(Fd& socket);
  void take(Event event);

  std::function<void(Event)> tell_;
  std::shared_ptr<BulkOffers> offers_ = std::make_shared<BulkOffers>();
  std::vector<Lane> lanes_;
  std::size_t next_server_ = 0;                   // used on the first lane's thread only
  std::map<std::uint64_t, std::size_t> lane_of_;  // lane by chunk
  // True while this object exists. Shared with the events that are posted to the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::internal::worker
