// The I/O around the executor core: takes events from callers, the agent and the client runtime,
// and carries out its commands. The core and the client core of the process share the engine's
// lock.
// Thread: any; members are guarded by the engine's lock.
// Errors: start().
// Not: decisions about calls (ExecutorCore).
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/block_pool.h"
#include "base/fd.h"
#include "base/queue.h"
#include "base/table.h"
#include "client/engine/process_runtime.h"
#include "client/executor/call_runner.h"
#include "client/executor/callers.h"
#include "client/executor/core/executor_core.h"
#include "client/executor/core/prefetch.h"
#include "client/executor/core/running_reports.h"
#include "client/executor/output_label.h"
#include "client/executor/thread_limits.h"
#include "protocol/codec/encoder.h"
#include "protocol/codec/messages.h"
#include "protocol/recording/recorder.h"
#include "protocol/tickets/ticket_clock.h"
#include "transport/bus/process_sockets.h"

namespace mobula::internal::executor {

class ExecutorShell : client::EngineOwner {
 public:
  ExecutorShell(PrepareExecutor prepare, AssignExecutor assignment,
                std::unique_ptr<ProcessSockets> sockets, Fd link)
      : prepare_(std::move(prepare)),
        assignment_(std::move(assignment)),
        sockets_(std::move(sockets)),
        link_(std::move(link)) {}

  Result<void> start();
  [[noreturn]] void run_calls();

 private:
  struct Fetch {
    std::vector<ObjectId> objects;
    RefRecords tensors;  // tensors in arguments by value; all tensors once the objects are here
    bool has_all_tensors = false;
    client::LocalTensors::PullPtr pull;  // pull of all tensors; set once the objects are here
    bool reported = false;
  };

  RecordOptions open_recording();
  void flush_recordings();
  // client::EngineOwner
  void received_from_agent(const AgentToProcess& message) override;
  void agent_lost(const Failure& why) override;
  void object_changed() override;
  bool takes_calls() const override { return true; }
  void tick() override;
  std::optional<Time> next_deadline() const override { return core_.next_deadline(); }
  void received_from_peer(PeerHandle peer, const PeerOrigin& origin,
                          std::span<const std::byte> bytes) override;
  // A connection may be reopened. The agent reports the death of a caller.
  void peer_closed(PeerHandle peer) override { callers_.gone(peer); }
  void received_from_caller(ProcessId caller, std::span<const std::byte> bytes) override;
  void add_spans(client::SpanAnswer& answer) const override { answer.add_ran(core_.ran()); }
  void submitted_done() override { step(SubmittedDone{}); }
  void name_released() override { step(NameReleased{}); }

  void step(Event event);
  void step_one(Event&& event);
  void carry_out(std::vector<Command>& commands);
  void carry_out(FetchArguments& command);
  void carry_out(const Leave& command);
  // Returns the pull, whose last share must be destroyed without the lock.
  client::LocalTensors::PullPtr drop_fetched(std::uint64_t token);
  void check_fetches();
  void tensors_changed();
  void tell_held();
  void find_tensors(Fetch& fetch) const;
  std::uint64_t bytes_to_hold(const RefRecords& tensors) const;
  void change_trust(const TrustChanged& trust);
  void called(ProcessId caller, std::span<const std::byte> bytes);
  void hello(PeerHandle peer, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void starts(const RunCall& run);
  void tell_running();
  void leave(int code, bool exit_handlers = false);
  [[noreturn]] static void run_exit_handlers(int code) noexcept;
  void destroy_actor(client::ProcessEngine::Lock& lock);
  void be_replaced(const std::string& why);
  void serve(Queue<RunCall>& calls);

  const PrepareExecutor prepare_;
  AssignExecutor assignment_;
  const ThreadLimits thread_limits_{assignment_.allocation};
  std::unique_ptr<ProcessSockets> sockets_;  // both move into the engine in start()
  Fd link_;
  std::shared_ptr<client::ProcessEngine> engine_;    // shared with the runtime
  std::shared_ptr<client::ProcessRuntime> runtime_;  // shared; installed for user code
  ExecutorCore core_;
  std::unique_ptr<Recorder> recorder_;
  ActorInstance actor_;
  std::shared_ptr<const detail::ContextRecord> record_of_process_;

  // Guarded by the engine's lock.
  bool ready_ = false;  // start() is complete; before that the loop thread only queues input
  std::vector<AgentToProcess> early_messages_;
  std::vector<std::pair<ProcessId, std::vector<std::byte>>> called_early_;
  bool stepping_ = false;
  std::vector<Event> events_;      // events caused by the running step
  std::vector<Command> commands_;  // commands of the running step; both reuse their memory
  Encoder encode_frame_;           // member only to reuse its memory
  Queue<RunCall> to_run_;
  Queue<RunCall> to_run_beside_;
  std::thread beside_;  // runs calls outside the order; starts with the first of them
  Table<std::uint64_t, std::shared_ptr<client::TaskContext>> contexts_;
  PooledMap<std::uint64_t, Fetch> fetches_;
  PrefetchBudget ahead_{transfer::RegionOptions().max_receive_bytes};
  bool room_ahead_ = false;  // prefetch budget may have been freed since the last check of fetches
  TicketClock ticket_clock_;
  Callers callers_{assignment_.head_signing_key, assignment_.demand_class.job,
                   !assignment_.actor.name.empty()};
  std::uint64_t refused_ = 0;  // count of rejected callers
  RunningReports running_;
  OutputLabel label_{STDERR_FILENO};      // used by the thread that runs tasks
  std::unique_ptr<Timer> running_timer_;  // used by the loop thread
  ResidentResults reported_held_;
  bool evacuating_ = false;
  bool to_destroy_ = false;          // the next free thread that runs calls destroys the actor
  bool is_lost_ = false;             // devices are lost: exit when no call runs
  std::unique_ptr<Timer> replaced_;  // used by the loop thread
  bool leaving_ = false;
};

}  // namespace mobula::internal::executor
