// The executors of one agent: starts them, forked from a nursery where the program allows it and
// else directly, reads what they print, ends them with everything they have started, and says how
// they ended. Knows nothing of tasks, leases or the cluster.
//
// One thread, which must live as long as the process (the kernel ties executors to it). Nothing
// waits, the destructor excepted. The process becomes a subreaper.
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
#include "protocol/nursery_wire.h"
#include "worker/process/cgroup.h"
#include "worker/process/exit_cause.h"
#include "worker/process/orphans.h"
#include "worker/process/output.h"
#include "worker/process/poll_set.h"
#include "worker/process/process_table.h"
#include "worker/process/program_start.h"

namespace mobula::internal::worker {

// A command that is run as it is: it never reaches `init`, has no link and no nursery.
struct CommandStart {
  std::vector<std::string> argv;
  std::string working_directory;  // empty, or not there: `scratch_directory`, which is made
  bool needs_working_directory = false;  // it has to be there
  std::string scratch_directory;
  Duration grace{};  // for what it leaves behind when it ends by itself
};

struct ExecutorStart {
  ProcessId process;  // new for every start
  SlotId slot;
  NurseryKey nursery;
  std::vector<EnvironmentVariable> environment;  // over the nursery's: device masks, ids
  Fd link;                                       // the executor's end of a socket pair
  std::uint64_t seed = 0;
  std::optional<CommandStart> command = {};
};

struct PoolStarted {
  ProcessId process;
  ProcessStamp stamp;
};
struct PoolStartFailed {
  ProcessId process;
  std::string reason;  // with what the program, or the loader, printed
  bool cannot_run = false;  // the program cannot be loaded on this node, now or later
};
// The process and all that it had started are gone: what they held is free.
struct PoolExited {
  ProcessId process;
  ExitCause cause;
};
// For each process one PoolStartFailed, or one PoolStarted and later one PoolExited.
using PoolEvent = std::variant<PoolStarted, PoolStartFailed, PoolExited>;

struct PoolOptions {
  std::vector<std::string> environment;  // the agent's own, "NAME=value"
  // Complete lines of an executor's stdout and stderr. Called in `on_readable`; must not call back.
  std::function<void(ProcessId, std::string_view lines)> on_output;
  ProcessTable* table = nullptr;  // if given, running executors are recorded there
  std::vector<std::string> warden;  // program and first words of the process above a command (warden.h)
  bool use_nurseries = true;
  Duration start_limit = 60s;  // from exec until `init` is reached
  std::size_t max_nurseries = 64;
  std::size_t max_executors = 20'000;
};

// For `status`: how executors of a program are started.
struct NurseryView {
  std::string program;
  std::string state;    // starting, ready, exec
  std::string refusal;  // why executors are started by exec
};

class ExecutorPool {
 public:
  static Result<std::unique_ptr<ExecutorPool>> create(PoolOptions options);
  // Kills everything and waits for it, 10 s at most.
  ~ExecutorPool();
  ExecutorPool(const ExecutorPool&) = delete;
  ExecutorPool& operator=(const ExecutorPool&) = delete;

  // Readable whenever `on_readable` should be called.
  int poll_fd() const { return poll_.fd(); }
  void on_readable(std::vector<PoolEvent>& out);

  // The outcome, a refusal too, comes as an event.
  void start(ExecutorStart what);
  // SIGTERM to the executor, all below it, and what has left its tree by forking twice; SIGKILL after
  // `grace` (0: at once). What is left when the executor itself has ended has the rest of that time; of
  // a command that ends by itself, the command's own grace, from SIGTERM on.
  // Unknown or ending processes are ignored; one that has not started ends in PoolStartFailed.
  void kill(ProcessId process, Duration grace);
  // Ends a nursery once nothing waits for it, as when its job is over; its executors run on.
  void retire(const NurseryKey& key);

  std::vector<NurseryView> nurseries() const;
  // Whether what starts with this key is forked, for all that is known.
  bool forks(const NurseryKey& key) const;
  std::size_t size() const { return executors_.size(); }

 private:
  using Serial = std::uint64_t;
  enum class Stage { waiting, requested, starting, running, ending };
  struct Executor {
    ProcessId process;
    SlotId slot;
    NurseryKey key;
    std::vector<EnvironmentVariable> environment;
    std::uint64_t seed = 0;
    std::optional<CommandStart> command{};
    Fd link;        // until handed over
    Fd output_end;  // likewise
    OutputPipe output;
    Stage stage = Stage::waiting;
    int attempts = 0;
    bool reported = false;  // as PoolStarted
    bool asked = false;     // to end
    bool overdue = false;   // a limit ended it
    ProcessStamp stamp{};
    std::optional<ProcessStamp> warden{};  // of a command: above `stamp`, and there until nothing is left
    Fd pidfd{};    // of this process's child: the warden, or the executor itself
    Fd control{};  // of a direct start, until it has reported; of a warden, while it may say something
    Time begun{};
    std::optional<Time> deadline{};  // by stage: start limit, SIGKILL, next look at what is left
    std::optional<Time> spare_until{};  // ending: what is left is killed from then on
    std::set<ProcessStamp> told{};      // of what is left: those that have had SIGTERM
    ExitCause cause{};
  };
  enum class NurseryStage { starting, ready, refused, leaving };
  struct Nursery {
    NurseryKey key;
    StartedProgram program;
    OutputPipe output;
    NurseryStage stage = NurseryStage::starting;
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
  void look_at_deadlines(Time now);
  void schedule();

  // Starting.
  void begin(Serial serial);
  void start_directly(Serial serial);
  void start_command(Serial serial);
  void read_words(Serial serial);
  void warden_ended(Serial serial);
  ForkRequest request_for(const Executor& executor) const;
  void read_control(Serial serial);
  void adopt(Serial serial, ProcessStamp stamp, Fd pidfd);
  void report_started(Serial serial);
  void fail_start(Serial serial, const std::string& reason, bool cannot_run = false);

  // Nurseries.
  Serial nursery_for(const NurseryKey& key, std::string& why_not);
  void make_room_for_nursery();
  void send_requests(Serial serial);
  void read_nursery(Serial serial);
  void take_hello(Serial serial, const NurseryHello& hello);
  void take_reply(Serial serial, const ForkReply& reply);
  void nursery_ended(Serial serial);
  void leave(Serial serial);
  void leave_if_retired(Serial serial);
  void forget_key_of(Serial serial);

  // Ending.
  void executor_ended(Serial serial);
  void over(Executor& executor, const ExitCause& cause);
  static ProcessStamp child_of(const Executor& executor) { return executor.warden.value_or(executor.stamp); }
  static std::vector<ProcessStamp> tree_of(const Executor& executor);
  static void signal_all(const Executor& executor, int signal);
  bool look_at_left(Executor& executor, const std::vector<Orphan>& orphans, bool spared);
  bool belongs(const Orphan& orphan, const Executor& executor) const;
  void tell_escaped(Executor& executor);
  void sweep(Time now);
  void sweep_after_nurseries(const std::vector<Orphan>& orphans);
  void conclude(Serial serial);

  std::set<pid_t> known_processes() const;
  bool forks_are_pending() const;
  static std::string describe_failed_warden(const Executor& executor);
  LineSink sink_of(const Executor& executor) const;
  std::string describe_early_end(const ExitCause& cause, bool overdue,
                                 const OutputPipe& output) const;

  static constexpr Duration housekeeping_interval = 1s;

  PoolOptions options_;
  PollSet poll_;
  Serial last_serial_ = 0;
  std::map<Serial, Executor> executors_;
  std::map<ProcessId, Serial> serials_;
  std::map<Serial, Nursery> nurseries_;
  std::map<NurseryKey, Serial> nursery_serials_;
  std::set<pid_t> ended_nurseries_;  // sessions that may still have members
  std::vector<PoolEvent> events_;
  OomWatch oom_;
  Time housekept_;
  std::uint64_t uses_ = 0;
};

}  // namespace mobula::internal::worker
