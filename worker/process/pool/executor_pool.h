// The executors of one agent: forks them from a fork server if the program permits it, otherwise
// starts them directly. Reads their output, ends them with all processes that they started, and
// reports their exit causes. The process becomes a subreaper.
// Thread: one thread that lives as long as the process, because the kernel ties executors to it.
// Nothing blocks except the destructor.
// Not: tasks, leases, the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/messages/fork_server_wire.h"
#include "worker/process/orphans.h"
#include "worker/process/output_pipe.h"
#include "worker/process/poll_set.h"
#include "worker/process/pool/exit_cause.h"
#include "worker/process/pool/program_start.h"
#include "worker/process/watch/executor_table.h"
#include "worker/process/watch/kill_group.h"

namespace mobula::internal::worker {

// A command that runs unchanged: it never reaches `init`, and has no link and no fork server.
struct CommandStart {
  std::vector<std::string> argv;
  std::string working_directory;         // empty or missing: `scratch_directory`, which is created
  bool needs_working_directory = false;  // fail the start if the working directory is missing
  std::string scratch_directory;
  Duration grace{};  // for remaining processes after the command's own exit
};

struct ExecutorStart {
  ProcessId process;  // unique for every start
  SlotId slot;
  ForkServerKey fork_server;
  std::vector<EnvironmentVariable> environment;  // in addition: device masks, ids
  Fd link;                                       // the executor's end of a socket pair
  std::uint64_t seed = 0;
  std::optional<CommandStart> command = {};
};

struct PoolStarted {
  ProcessId process;
  PidIdentity identity;
};
struct PoolStartFailed {
  ProcessId process;
  std::string reason;       // includes output of the program or the loader
  bool cannot_run = false;  // the program can never be loaded on this node
};
// The process and all processes that it started have exited: their resources are free.
struct PoolExited {
  ProcessId process;
  ExitCause cause;
};
// Each process produces one PoolStartFailed, or one PoolStarted and later one PoolExited.
using PoolEvent = std::variant<PoolStarted, PoolStartFailed, PoolExited>;

struct PoolOptions {
  std::vector<std::string> environment;  // the agent's own, "NAME=value"
  // Complete lines of an executor's stdout and stderr. Called within `on_readable`; must not call
  // the pool.
  std::function<void(ProcessId, std::string_view lines)> on_output;
  ExecutorTable* table = nullptr;     // records running executors; optional
  std::vector<std::string> job_shim;  // program and first arguments of the job shim (job_shim.h)
  bool use_fork_servers = true;
  Duration start_timeout = 60s;  // from exec until `init` is reached
  std::size_t max_fork_servers = 64;
  std::size_t max_executors = 20'000;
};

// For `status`: how executors of a program are started.
struct ForkServerView {
  std::string program;
  std::string state;    // starting, ready, exec
  std::string refusal;  // reason for starts by exec
};

class ExecutorPool {
 public:
  static Result<std::unique_ptr<ExecutorPool>> create(PoolOptions options);
  // Kills all processes and waits for their exit, at most 10 s.
  ~ExecutorPool();
  ExecutorPool(const ExecutorPool&) = delete;
  ExecutorPool& operator=(const ExecutorPool&) = delete;

  // Readable whenever `on_readable` must be called.
  int poll_fd() const { return poll_.fd(); }
  void on_readable(std::vector<PoolEvent>& out);

  // The result, also a rejection, arrives as an event.
  void start(ExecutorStart what);
  // Sends SIGTERM to the executor, to all processes below it, and to processes that left its tree
  // by forking twice; SIGKILL follows after `grace` (0: at once). Processes that remain after the
  // executor's exit have the rest of that time. After the own exit of a command, they have the
  // command's grace from SIGTERM on.
  // Unknown and ending processes are ignored. A process that has not started yet ends in
  // PoolStartFailed.
  void kill(ProcessId process, Duration grace);
  // Ends a fork server as soon as no start waits for it, for example after its job. Its executors
  // continue.
  void retire(const ForkServerKey& key);

  std::vector<ForkServerView> fork_servers() const;
  // True if, as far as known, executors with this key are forked.
  bool forks(const ForkServerKey& key) const;
  std::size_t size() const { return executors_.size(); }

 private:
  using Serial = std::uint64_t;
  enum class Stage { waiting, requested, starting, running, ending };
  struct Executor {
    ProcessId process;
    SlotId slot;
    ForkServerKey key;
    std::vector<EnvironmentVariable> environment;
    std::uint64_t seed = 0;
    std::optional<CommandStart> command{};
    Fd link;        // until handed over
    Fd output_end;  // until handed over
    OutputPipe output;
    Stage stage = Stage::waiting;
    int attempts = 0;
    bool reported = false;   // as PoolStarted
    bool requested = false;  // its end was requested
    bool overdue = false;    // a deadline ended it
    PidIdentity identity{};
    std::optional<PidIdentity> job_shim{};  // shim of a command: exits last, above `identity`
    Fd pidfd{};                             // child of this process: the shim, or the executor
    Fd control{};  // direct start: until its report; shim: while it may report
    Time begun{};
    std::optional<Time> deadline{};     // by stage: start limit, SIGKILL, next check of orphans
    std::optional<Time> spare_until{};  // ending: remaining processes are killed then
    std::set<PidIdentity> signaled{};   // remaining processes that received SIGTERM
    ExitCause cause{};
  };
  enum class ForkServerStage { starting, ready, refused, leaving };
  struct ForkServer {
    ForkServerKey key;
    StartedProgram program;
    OutputPipe output;
    ForkServerStage stage = ForkServerStage::starting;
    bool running = true;
    bool overdue = false;
    bool retiring = false;
    std::string refusal{};
    std::deque<Serial> waiting{};
    std::deque<Serial> requested{};
    std::optional<Time> deadline{};
    std::uint64_t last_use = 0;
  };

  ExecutorPool(PoolOptions options, PollSet poll);

  void dispatch(PollSet::Ready ready);
  void check_deadlines(Time now);
  void schedule();

  // Starting.
  void begin(Serial serial);
  void start_directly(Serial serial);
  void start_command(Serial serial);
  void read_words(Serial serial);
  void job_shim_ended(Serial serial);
  ForkRequest request_for(const Executor& executor) const;
  void read_control(Serial serial);
  void adopt(Serial serial, PidIdentity identity, Fd pidfd);
  void report_started(Serial serial);
  void fail_start(Serial serial, const std::string& reason, bool cannot_run = false);
  static bool cannot_run(const ForkServerKey& key, const ExitCause& cause) {
    return cause.cannot_run() || (key.is_interpreter && cause.signal == 0 && cause.exit_code != 0);
  }

  // Fork servers.
  Serial fork_server_for(const ForkServerKey& key, std::string& why_not);
  void retire_idle_fork_server();
  void send_requests(Serial serial);
  void read_fork_server(Serial serial);
  void take_hello(Serial serial, const ForkServerHello& hello);
  void take_reply(Serial serial, const ForkReply& reply);
  void fork_server_ended(Serial serial);
  void leave(Serial serial);
  void leave_if_retired(Serial serial);
  void forget_key_of(Serial serial);

  // Ending.
  void executor_ended(Serial serial);
  void over(Executor& executor, const ExitCause& cause);
  static PidIdentity child_of(const Executor& executor) {
    return executor.job_shim.value_or(executor.identity);
  }
  static std::vector<PidIdentity> tree_of(const Executor& executor);
  static void signal_all(const Executor& executor, int signal);
  bool check_left(Executor& executor, const std::vector<Orphan>& orphans, bool spared);
  bool belongs(const Orphan& orphan, const Executor& executor) const;
  void tell_escaped(Executor& executor);
  void sweep(Time now);
  void sweep_after_fork_servers(const std::vector<Orphan>& orphans);
  void conclude(Serial serial);

  std::set<pid_t> known_processes() const;
  bool forks_are_pending() const;
  static std::string describe_failed_job_shim(const Executor& executor);
  LineSink sink_of(const Executor& executor) const;
  std::string describe_early_end(const ExitCause& cause, bool overdue,
                                 const OutputPipe& output) const;

  static constexpr Duration housekeeping_interval = 1s;

  PoolOptions options_;
  PollSet poll_;
  Serial last_serial_ = 0;
  std::map<Serial, Executor> executors_;
  std::map<ProcessId, Serial> serials_;
  std::map<Serial, ForkServer> fork_servers_;
  std::map<ForkServerKey, Serial> fork_server_serials_;
  std::set<pid_t> ended_fork_servers_;  // sessions that may still have members
  std::vector<PoolEvent> events_;
  OomWatch oom_;
  Time housekept_;
  std::uint64_t uses_ = 0;
};

}  // namespace mobula::internal::worker
