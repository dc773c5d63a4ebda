// Bytes between nodes, on a thread of its own so that sealing them does not hold up the agent:
// offers that one peer may read once, under a fresh token and key, and pulls from peers straight to
// where the bytes belong. Knows neither objects nor files. Made, used and destroyed on the thread
// of the agent's loop, where it also tells what has happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/bulk_client.h"
#include "transport/bulk_server.h"
#include "transport/loop_thread.h"
#include "worker/core/worker_event.h"

namespace mobula::internal::worker {

// Memory to read or write, and what keeps it there. Shared, because it outlives its owner's use of
// it while a transfer runs.
struct BulkSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeps;
};
struct BulkRoom {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keeps;
  std::function<Result<void>()> finish = nullptr;  // when all is written
};

class BulkTransfers {
 public:
  // `tell` takes PullFinished, BulkOffered and BulkServed, from `loop`.
  static Result<std::unique_ptr<BulkTransfers>> start(EventLoop& loop,
                                                      std::function<void(Event)> tell);
  // Ends all transfers; nothing is told any more, and no memory is touched any more.
  ~BulkTransfers();
  BulkTransfers(const BulkTransfers&) = delete;
  BulkTransfers& operator=(const BulkTransfers&) = delete;

  // HOST:0 to HOST:PORT.
  Result<std::string> listen(const std::string& address);

  // The functions run on the transfers' thread and may block for the disk.
  void offer(std::uint64_t offer, std::function<Result<BulkSource>()> open);
  void withdraw(std::uint64_t offer);
  void pull(std::uint64_t pull, const AgentAddress& from, const std::string& token,
            const std::string& key, std::function<Result<BulkRoom>()> open);
  void cancel(std::uint64_t pull);

 private:
  class Desk;
  BulkTransfers() = default;
  void on_thread(std::function<void(Desk&)> work);

  std::unique_ptr<LoopThread> thread_;
  std::unique_ptr<Desk> desk_;  // the thread's
  // Whether anybody is still there to be told; shared with what has been posted to the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::internal::worker
