// The disk behind the object store: writes files of spilled objects and restores objects, each on
// its own thread, so that neither the agent's loop nor a reader waits for a write. Files are of use
// to this incarnation only. Files of earlier incarnations are removed at the start, its own at the
// end.
// Thread: the agent's loop, for calls and events. Units: bytes. Not: bounds of the queue, which the
// core sets.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "transport/loop/loop_thread.h"
#include "worker/core/worker_events.h"
#include "worker/transfers/bulk_transfers.h"

namespace mobula::internal::worker {

struct SpillDiskOptions {
  std::string directory;  // for this node alone; created with the first write
  ProcessId incarnation{};
  int cap_percent = 95;  // fill limit of the file system, in percent
};

class SpillDisk {
 public:
  // `tell` receives SpillFinished and RestoreFinished on the thread of `loop`.
  static Result<std::unique_ptr<SpillDisk>> start(EventLoop& loop, SpillDiskOptions options,
                                                  std::function<void(Event)> tell);
  // Ends all operations. Afterwards no event is delivered and no memory is accessed.
  ~SpillDisk();
  SpillDisk(const SpillDisk&) = delete;
  SpillDisk& operator=(const SpillDisk&) = delete;

  void write(std::uint64_t file, std::vector<BulkSource> sources);
  void read(const StartRestore& restore, BulkSpace space);
  void remove(std::uint64_t file);

 private:
  class IoThread;
  SpillDisk() = default;
  Result<std::unique_ptr<LoopThread>> start_thread(EventLoop& loop, std::unique_ptr<IoThread>& io,
                                                   const std::function<void(Event)>& tell);

  std::string root_;       // parent directory of all incarnations
  std::string directory_;  // directory of this incarnation
  int cap_percent_ = 95;
  std::atomic<bool> stop_{false};
  std::unique_ptr<LoopThread> writer_, reader_;
  std::unique_ptr<IoThread> writing_, reading_;  // each used on its own thread only
  bool complained_ = false;                      // used by the writer only
  // True while this object exists. Shared with the events that are posted to the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::internal::worker
