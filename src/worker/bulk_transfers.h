// Bytes between nodes, on threads of their own so that sealing and copying them does not hold up the
// agent: parts of what others offer, read straight to where they belong, and offers that others may
// read. Each thread is a lane with one connection to each node, so that between two nodes there are
// as many connections as lanes. Knows neither objects nor what to do about a failure. Made, used and
// destroyed on the thread of the agent's loop, where it also tells what has happened.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/local_control.h"
#include "transport/loop_thread.h"
#include "worker/bulk_lane.h"
#include "worker/core/bulk_command.h"

namespace mobula::internal::worker {

class BulkTransfers {
 public:
  // `tell` takes ChunkFetched, PullFinished, BulkOffered and BulkServed, from `loop`. `lanes` ≥ 1.
  static Result<std::unique_ptr<BulkTransfers>> start(EventLoop& loop, std::size_t lanes,
                                                      std::function<void(Event)> tell);
  // Ends all transfers; nothing is told any more, and no memory is touched any more.
  ~BulkTransfers();
  BulkTransfers(const BulkTransfers&) = delete;
  BulkTransfers& operator=(const BulkTransfers&) = delete;

  // HOST:0 to HOST:PORT.
  Result<std::string> listen(const std::string& address);

  void offer(std::uint64_t offer, ProcessId reader, bool plain, Result<BulkSource> source);
  void withdraw(std::uint64_t offer);
  // Into `room`, as long as the command says.
  void fetch(const FetchBulk& command, Result<BulkRoom> room);
  void cancel(std::uint64_t chunk);
  // Runs `check`, which may block for the disk, and tells PullFinished with what it says.
  void finish(std::uint64_t pull, std::function<Result<void>()> check);

 private:
  struct Lane {
    std::unique_ptr<LoopThread> thread;
    std::unique_ptr<BulkLane> lane;  // the thread's
    std::size_t chunks = 0;          // under way
  };
  BulkTransfers() = default;
  void on_lane(std::size_t index, std::function<void(BulkLane&)> work);
  bool hand_over(Fd& socket);
  void take(Event event);

  std::function<void(Event)> tell_;
  std::shared_ptr<BulkOffers> offers_ = std::make_shared<BulkOffers>();
  std::vector<Lane> lanes_;
  std::size_t next_server_ = 0;  // the first lane's thread's
  std::map<std::uint64_t, std::size_t> lane_of_;  // by chunk
  // Whether anybody is still there to be told; shared with what has been posted to the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::internal::worker
