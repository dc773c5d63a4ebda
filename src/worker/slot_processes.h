// The executors of this node as the core sees them: by slot and generation. Around ExecutorPool:
// gives each its link with the assignment as first message, keeps what it prints in the slot's log,
// and reports its end only after everything its link still held. Decides nothing about slots.
// For the loop's thread alone, which must be the process's first.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/event_loop.h"
#include "worker/core/worker_command.h"
#include "worker/process/executor_pool.h"
#include "worker/process/output.h"
#include "worker/process_links.h"

namespace mobula::internal::worker {

struct SlotProcessOptions {
  std::string logs_folder;
  PoolOptions pool;        // without on_output and table
  std::string table_path;  // of the ProcessTable
};

// Everything that is known of one start; `assign` is complete.
struct SlotStart {
  AssignExecutor assign;
  ProgramId program;
  NurseryKey nursery;
  std::vector<EnvironmentVariable> masks;
};

class SlotProcesses {
 public:
  // `tell` takes ExecutorStarted, ExecutorStartFailed, ExecutorExited and ExecutorPrinted, and is
  // never called from within the functions below. `links` outlives it.
  static Result<std::unique_ptr<SlotProcesses>> create(EventLoop& loop, ProcessLinks& links,
                                                       SlotProcessOptions options,
                                                       std::function<void(Event)> tell);
  // Kills them all and waits for that.
  ~SlotProcesses();
  SlotProcesses(const SlotProcesses&) = delete;
  SlotProcesses& operator=(const SlotProcesses&) = delete;

  void start(SlotStart start);
  void kill(SlotId slot, std::uint32_t generation);
  // The core has been told that this link is gone.
  void link_lost(LinkId link);
  // What the executor behind this link runs now; stands on its log lines.
  void running(LinkId link, const std::string& name);
  // No executor of the program, or of the job, starts any more: its nurseries end.
  void retire(ProgramId program);
  void retire(JobId job);

  std::size_t size() const { return executors_.size(); }
  std::vector<NurseryView> nurseries() const { return pool_->nurseries(); }

 private:
  struct Executor {
    SlotId slot;
    std::uint32_t generation = 0;
    AssignExecutor assign;  // until it has started
    Fd own_end;             // likewise
    LinkId link = 0;
    ProcessStamp stamp{};
    std::string running;
    std::string endpoint;  // path of its socket
    LineTail tail;
    std::optional<ExitCause> exit;  // and its link still has something to tell
  };

  SlotProcesses(EventLoop& loop, ProcessLinks& links, SlotProcessOptions options,
                std::function<void(Event)> tell);
  void pump();
  void printed(ProcessId process, std::string_view lines);
  void on(const PoolStarted& event);
  void on(const PoolStartFailed& event);
  void on(const PoolExited& event);
  void conclude(ProcessId process);
  CappedLog* log_of(SlotId slot);

  ProcessLinks& links_;
  const SlotProcessOptions options_;
  const std::function<void(Event)> tell_;
  std::optional<ProcessTable> table_;
  std::map<ProcessId, Executor> executors_;
  std::map<LinkId, ProcessId> of_link_;
  std::map<SlotId, CappedLog> logs_;
  std::map<ProgramId, std::set<NurseryKey>> nurseries_;
  std::vector<ExecutorPrinted> printed_;  // while the pool is read
  Timer early_failures_;                  // starts that failed before the pool had them
  std::vector<ExecutorStartFailed> failed_;
  std::unique_ptr<ExecutorPool> pool_;
  Watch watch_;
};

}  // namespace mobula::internal::worker
