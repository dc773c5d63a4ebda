// The executors of this node, by slot and generation. Extends ExecutorPool: gives each executor its
// link with the assignment, writes its output to the slot's log, and reports its exit after the
// last message of its link. For programs with a fork server it keeps prestarted executors, as many
// as recently started together; they run no user code before an assignment.
// Thread: the agent's loop, on the main thread of the process. Not: decisions about slots.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/loop/event_loop.h"
#include "worker/core/worker_commands.h"
#include "worker/process/dir_remover.h"
#include "worker/process/log_disk_quota.h"
#include "worker/process/output_pipe.h"
#include "worker/process/pool/executor_pool.h"
#include "worker/process/slot_logs.h"
#include "worker/process/watch/memory_watch.h"
#include "worker/process_links.h"

namespace mobula::internal::worker {

struct SlotProcessOptions {
  std::string logs_dir;
  std::string sockets_dir;
  std::string bind_host;  // address for peers on other nodes; empty: none
  Duration prestart_idle_timeout{};
  std::size_t max_reserves = 0;
  // Called after the assignment was sent to an executor, before the core is notified.
  std::function<void(LinkId, const AssignExecutor&)> on_assigned;
  PoolOptions pool;           // without on_output and table
  std::string table_path;     // path of the ExecutorTable
  std::string job_files_dir;  // emptied at the start, except for `cache`
};

struct SlotStart {
  AssignExecutor assign;  // without its ticket
  ProgramId program;
  ForkServerKey fork_server;
  // Returns a ticket for a process with this public key.
  std::function<std::string(const std::string& public_key)> sign;
};

// A command of a submitted job and its environment.
struct CommandSlot {
  SlotId slot;
  std::uint32_t generation = 0;
  JobId job;
  std::string name;  // name of its program
  CommandStart command;
  std::vector<EnvironmentVariable> environment;  // added to the agent's environment
  std::string own_dir;  // created by the command below `job_files_dir`; empty: none
};

class SlotProcesses {
 public:
  // `tell` receives ExecutorStarted, ExecutorStartFailed, ExecutorExited and ExecutorPrinted, never
  // from within a call of this class. `links` outlives this object.
  static Result<std::unique_ptr<SlotProcesses>> create(EventLoop& loop, ProcessLinks& links,
                                                       SlotProcessOptions options,
                                                       std::function<void(Event)> tell);
  // Kills all processes and waits for their exit.
  ~SlotProcesses();
  SlotProcesses(const SlotProcesses&) = delete;
  SlotProcesses& operator=(const SlotProcesses&) = delete;

  // Fails if no process can be created.
  Result<void> start(SlotStart start);
  // Reported like an executor without a link. Its output goes to the job's log only.
  void start_command(CommandSlot slot);
  // SIGKILL at once, or after SIGTERM and `grace`.
  void kill(SlotId slot, std::uint32_t generation, Duration grace);
  // The core has been notified of the lost link. A prestarted executor exits with its link.
  void link_lost(LinkId link);
  // Name of the call that the executor behind this link runs now.
  void running(LinkId link, const std::string& name);
  // No executor of the program, or of the job, starts any more: its fork servers exit.
  void retire(ProgramId program);
  void retire(JobId job);

  // Executors with a slot, for samples of their memory.
  std::vector<WatchedExecutor> watched() const;
  // The same, with the names of their running calls.
  std::vector<std::pair<WatchedExecutor, std::string>> watched_by_name() const;
  const SlotLogs& logs() const { return logs_; }
  std::size_t size() const { return executors_.size(); }  // includes prestarted executors
  std::vector<ForkServerView> fork_servers() const { return pool_->fork_servers(); }

 private:
  struct Executor {
    ForkServerKey fork_server;
    bool assigned = false;  // false: prestarted
    SlotId slot{};
    JobId job{};
    std::uint32_t generation = 0;
    std::optional<AssignExecutor> assign{};  // present until it has started
    PrepareExecutor prepare{};
    Fd own_end{};  // present until it has started
    bool started = false;
    LinkId link = 0;
    PidIdentity identity{};
    std::string running{};
    std::string label{};  // label of its output: class of its actor, or the task that printed last
    ProcessId labeled_by{};  // id in the labels of its output
    TaskId printing{};       // task of the next lines; empty: unknown
    LineTail tail{};
    std::optional<JobLog> log{};      // commands only
    std::string own_dir{};            // commands only
    std::optional<ExitCause> exit{};  // cause of its exit, while its link still has unread messages
  };
  // Executors of one fork server.
  struct Stock {
    std::size_t starting = 0;
    std::vector<ProcessId> reserve{};  // oldest first
    std::size_t wanted = 1;            // prestarted executors to keep
    std::size_t together = 0;          // recent starts in quick succession
    Time last_start{};
    void count_start(Time now, std::size_t most_wanted);
  };

  SlotProcesses(EventLoop& loop, ProcessLinks& links, SlotProcessOptions options,
                std::function<void(Event)> tell);
  // Creates a process that waits for an assignment; the pool knows it by the returned id.
  Result<ProcessId> make(const ForkServerKey& key, std::vector<EnvironmentVariable> environment);
  void keep_reserve(const ForkServerKey& key);
  void end_reserves(Stock& stock);
  std::size_t reserves() const;
  void evict_for_reserve();
  void end_idle_reserves();
  void no_longer_starting(const ForkServerKey& key);
  void forget_reserve(const ForkServerKey& key, ProcessId process);
  void retire(const ForkServerKey& key);
  void take_up(ProcessId process);
  void pump();
  void printed(ProcessId process, std::string_view lines);
  void report_output(Executor& executor, std::vector<std::string> lines);
  void command_started(Executor& executor, const PidIdentity& identity);
  void command_printed(Executor& executor, std::string_view bytes);
  void command_over(const Executor& executor);
  void remove_left_dirs();
  void on(const PoolStarted& event);
  void on(const PoolStartFailed& event);
  void on(const PoolExited& event);
  void conclude(ProcessId process);

  ProcessLinks& links_;
  const SlotProcessOptions options_;
  const std::function<void(Event)> tell_;
  std::optional<ExecutorTable> table_;
  std::map<ProcessId, Executor> executors_;  // by the id in the pool
  std::map<ForkServerKey, Stock> stocks_;
  std::uint64_t endpoints_made_ = 0;
  std::map<LinkId, ProcessId> of_link_;
  SlotLogs logs_;
  LogDiskQuota job_logs_;
  std::unique_ptr<DirRemover> remover_;  // created with the first directory to remove
  std::map<ProgramId, std::set<ForkServerKey>> fork_servers_;
  std::vector<ExecutorPrinted> printed_;  // collected while the pool is read
  Timer taken_up_;                        // for executors that left the prestarted state
  std::vector<ProcessId> taken_;
  Timer reserves_;  // idle timeout of prestarted executors
  std::unique_ptr<ExecutorPool> pool_;
  Watch watch_;
};

}  // namespace mobula::internal::worker
