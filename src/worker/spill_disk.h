// The disk behind the object store: writes files of spilled objects and reads objects back, each on
// a thread of its own, so that neither the agent's loop nor a reader waits for a file that is being
// written. What is written has no use beyond this incarnation: files of earlier ones are removed at
// the start, its own at its end. Made, used and destroyed on the thread of the agent's loop, where
// it also tells what has happened. The core bounds what it is asked for.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "transport/loop_thread.h"
#include "worker/bulk_transfers.h"
#include "worker/core/worker_event.h"

namespace mobula::internal::worker {

struct SpillDiskOptions {
  std::string folder;    // of this node alone; made when something is written, or not at all
  ProcessId incarnation{};
  int cap_percent = 95;  // of the file system, which may be filled so far
};

class SpillDisk {
 public:
  // `tell` takes SpillFinished and RestoreFinished, from `loop`.
  static Result<std::unique_ptr<SpillDisk>> start(EventLoop& loop, SpillDiskOptions options,
                                                  std::function<void(Event)> tell);
  // Ends what is under way; nothing is told any more, and no memory is touched any more.
  ~SpillDisk();
  SpillDisk(const SpillDisk&) = delete;
  SpillDisk& operator=(const SpillDisk&) = delete;

  void write(std::uint64_t file, std::vector<BulkSource> sources);
  void read(const StartRestore& restore, BulkRoom room);
  void remove(std::uint64_t file);

 private:
  class Desk;
  SpillDisk() = default;
  Result<std::unique_ptr<LoopThread>> start_thread(EventLoop& loop, std::unique_ptr<Desk>& desk,
                                                   const std::function<void(Event)>& tell);

  std::string root_;    // of all incarnations
  std::string folder_;  // of this one
  int cap_percent_ = 95;
  std::atomic<bool> stop_{false};
  std::unique_ptr<LoopThread> writer_, reader_;
  std::unique_ptr<Desk> writing_, reading_;  // their threads'
  bool complained_ = false;                  // the writer's
  // Whether anybody is still there to be told; shared with what has been posted to the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::internal::worker
