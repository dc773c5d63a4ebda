// The executors of this node as the core sees them: by slot and generation. Around ExecutorPool:
// gives each its link with the assignment, keeps what it prints in the slot's log, and reports its end
// only after everything its link still held. Of programs that can be forked it keeps executors in
// reserve, forked and with open sockets, for the next slots: as many as lately were started together.
// They run nothing before they have one. Decides nothing about slots.
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
#include "worker/process/folder_remover.h"
#include "worker/process/job_log_room.h"
#include "worker/process/memory_watch.h"
#include "worker/process/output.h"
#include "worker/process/slot_logs.h"
#include "worker/process_links.h"

namespace mobula::internal::worker {

struct SlotProcessOptions {
  std::string logs_folder;
  std::string sockets_folder;
  std::string bind_host;  // for peers of other nodes; empty: none
  Duration reserve_idle{};
  std::size_t max_reserves = 0;
  // An executor has its assignment, which is on its way, and will be this process.
  std::function<void(LinkId, const AssignExecutor&)> on_assigned;
  PoolOptions pool;        // without on_output and table
  std::string table_path;  // of the ProcessTable
  std::string job_files_folder;  // what it holds when this begins is removed, but for `cache`
};

struct SlotStart {
  AssignExecutor assign;  // without its ticket
  ProgramId program;
  NurseryKey nursery;
  // The ticket for a process with this public key.
  std::function<std::string(const std::string& public_key)> sign;
};

// A command of a submitted job, and where it runs.
struct CommandSlot {
  SlotId slot;
  std::uint32_t generation = 0;
  JobId job;
  std::string name;  // of its program
  CommandStart command;
  std::vector<EnvironmentVariable> environment;  // over the agent's
  std::string own_folder;  // below `job_files_folder`, made by the command and removed after it; empty: none
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

  // Fails when there is no process it could be.
  Result<void> start(SlotStart start);
  // Told of like an executor that has no link; what it prints goes to the job's log alone.
  void start_command(CommandSlot slot);
  // SIGKILL at once, or after SIGTERM and `grace`.
  void kill(SlotId slot, std::uint32_t generation, Duration grace);
  // The core has been told that this link is gone. An executor in reserve ends with it.
  void link_lost(LinkId link);
  // Name of the call that the executor behind this link runs now.
  void running(LinkId link, const std::string& name);
  // No executor of the program, or of the job, starts any more: its nurseries end.
  void retire(ProgramId program);
  void retire(JobId job);

  // Those that have a slot, for a look at their memory.
  std::vector<WatchedExecutor> watched() const;
  // Likewise, with the names of what they run.
  std::vector<std::pair<WatchedExecutor, std::string>> watched_by_name() const;
  const SlotLogs& logs() const { return logs_; }
  std::size_t size() const { return executors_.size(); }  // those in reserve included
  std::vector<NurseryView> nurseries() const { return pool_->nurseries(); }

 private:
  struct Executor {
    NurseryKey nursery;
    bool assigned = false;  // else it is a reserve
    SlotId slot{};
    JobId job{};
    std::uint32_t generation = 0;
    std::optional<AssignExecutor> assign{};  // until it has started
    PrepareExecutor prepare{};
    Fd own_end{};  // until it has started
    bool started = false;
    LinkId link = 0;
    ProcessStamp stamp{};
    std::string running{};
    std::string label{};  // names its output: the class of its actor, or the task that printed last
    LineTail tail{};
    std::optional<JobLog> log{};  // of a command
    std::string own_folder{};     // likewise
    std::optional<ExitCause> exit{};  // and its link still has something to tell
  };
  // What starts from one nursery.
  struct Stock {
    std::size_t starting = 0;
    std::vector<ProcessId> reserve{};  // the oldest first
    std::size_t wanted = 1;            // in reserve
    std::size_t together = 0;          // lately started, one shortly after another
    Time last_start{};
    void count_start(Time now, std::size_t most_wanted);
  };

  SlotProcesses(EventLoop& loop, ProcessLinks& links, SlotProcessOptions options,
                std::function<void(Event)> tell);
  // A process that waits for an assignment; its id is the pool's.
  Result<ProcessId> make(const NurseryKey& key, std::vector<EnvironmentVariable> environment);
  void keep_reserve(const NurseryKey& key);
  void end_reserves(Stock& stock);
  std::size_t reserves() const;
  void make_room_for_reserve();
  void end_idle_reserves();
  void no_longer_starting(const NurseryKey& key);
  void forget_reserve(const NurseryKey& key, ProcessId process);
  void retire(const NurseryKey& key);
  void take_up(ProcessId process);
  void pump();
  void printed(ProcessId process, std::string_view lines);
  void tell_printed(Executor& executor, std::vector<std::string> lines);
  void command_started(Executor& executor, const ProcessStamp& stamp);
  void command_printed(Executor& executor, std::string_view bytes);
  void command_over(const Executor& executor);
  void remove_left_folders();
  void on(const PoolStarted& event);
  void on(const PoolStartFailed& event);
  void on(const PoolExited& event);
  void conclude(ProcessId process);

  ProcessLinks& links_;
  const SlotProcessOptions options_;
  const std::function<void(Event)> tell_;
  std::optional<ProcessTable> table_;
  std::map<ProcessId, Executor> executors_;  // by the id that the pool knows
  std::map<NurseryKey, Stock> stocks_;
  std::uint64_t endpoints_made_ = 0;
  std::map<LinkId, ProcessId> of_link_;
  SlotLogs logs_;
  JobLogRoom job_logs_;
  std::unique_ptr<FolderRemover> remover_;  // from the first folder on
  std::map<ProgramId, std::set<NurseryKey>> nurseries_;
  std::vector<ExecutorPrinted> printed_;  // while the pool is read
  Timer taken_up_;                        // for those that left the reserve
  std::vector<ProcessId> taken_;
  Timer reserves_;                        // for what has been in reserve too long
  std::unique_ptr<ExecutorPool> pool_;
  Watch watch_;
};

}  // namespace mobula::internal::worker
