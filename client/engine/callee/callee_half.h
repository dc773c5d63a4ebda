// The half of a process that serves calls: the executor core and the state that its commands
// change, such as arguments being fetched, contexts of running calls, and admitted callers. It
// reads the rings of callers. The engine steps it, and carries out the commands that need a ring, a
// socket, or the loop.
// Thread: owner, under the engine's lock.
// Not: I/O (ProcessEngine), the threads that run calls (ExecutorShell).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/block_pool.h"
#include "base/containers/table.h"
#include "client/core/client_core.h"
#include "client/engine/callee/callers.h"
#include "client/engine/callee/parked_thread.h"
#include "client/engine/callee/runner_jobs.h"
#include "client/engine/callee/task_context.h"
#include "client/engine/engine_options.h"
#include "client/engine/step_events.h"
#include "client/engine/tensors/local_tensors.h"
#include "client/executor/core/executor_core.h"
#include "client/executor/core/prefetch.h"
#include "client/executor/core/running_reports.h"
#include "protocol/recording/recorder.h"
#include "protocol/tickets/ticket_clock.h"
#include "transport/ring/ring.h"

namespace mobula::internal::client {

// The end of a call whose reply must wait: until refs that user code keeps are held, and stored
// refs in its results are exported.
struct UnsettledCall {
  executor::CallFinished finished;
  RefRecords reachable;  // refs that user code can reach through the arguments
  RefRecords leaving;    // refs in the results
};

class CalleeHalf {
 public:
  // The half reads `caller` and the tensors, and changes them through `events` alone.
  CalleeHalf(CalleeOptions options, StepEvents& events, const ClientCore& caller);
  void use_tensors(LocalTensors* tensors) { tensors_ = tensors; }

  // ---- inputs; events follow through `events`
  // Input is only queued before, because the process lacks its runtime.
  void open();
  bool is_open() const { return open_; }
  void received_from_agent(const AgentToProcess& message);
  // Reads the next frame of a caller from its ring. Returns false if the ring is empty. The frame
  // is the input of the next step_with_frame(). Errors: corrupt, for the ring.
  Result<bool> read(ProcessId caller, RingReader& ring);
  // Null: the connection is not admitted.
  const ProcessId* caller_of(PeerHandle peer) const { return callers_.find(peer); }
  // The first message of a connection. Errors: permission_denied with the reason.
  Result<ProcessId> greet(PeerHandle peer, const PeerOrigin& origin,
                          std::span<const std::byte> bytes);
  // A connection may be reopened. The agent reports the death of a caller.
  void peer_closed(PeerHandle peer) { callers_.gone(peer); }
  void object_changed() { fetches_due_ = true; }
  // A pull completed or failed, or a registered tensor was released.
  void tensors_changed() { tensors_due_ = true; }
  // A call is complete; CallFinished follows.
  void call_returned(std::uint64_t token);

  // ---- deferred calls
  RunnerJobs& jobs(std::uint32_t group) {
    return jobs_[std::min<std::size_t>(group, jobs_.size() - 1)];
  }
  // Finishes the call once it is settled.
  void settle_later(UnsettledCall call) { unsettled_.push_back(std::move(call)); }
  // True: calls were settled, and events follow.
  bool check_unsettled();
  // The job that runs when the call is cancelled, once. False: it is cancelled already.
  bool on_cancel(std::uint64_t token, std::weak_ptr<detail::Job> job);

  // ---- steps
  void step(Time now, executor::Event&& event, std::vector<executor::Command>& out);
  void step_with_frame(Time now, std::vector<executor::Command>& out);
  std::optional<Time> next_deadline() const;
  // Checks fetches and tensors after a change. Must follow the last event, because fetches are
  // checked against the state of the caller half.
  bool is_due() const { return open_ && (fetches_due_ || tensors_due_); }
  void check();

  // ---- commands of the core
  void carry_out(executor::FetchArguments&& command);
  void carry_out(const executor::Evacuate& command);
  void carry_out(const executor::AwaitSubmitted& command);
  // Null: the call does not run any more.
  std::shared_ptr<TaskContext> carry_out(const executor::CancelRunning& command);
  // Releases the arguments of a call. The pull's last share must be destroyed without the lock.
  LocalTensors::PullPtr drop_fetched(std::uint64_t token);
  std::optional<PeerHandle> connection_of(ProcessId caller) const {
    return callers_.connection_of(caller);
  }
  FindActor name_question() const;
  void destroy_actor() { to_destroy_ = true; }
  // The report of the running task that is due now.
  std::optional<RunningNow> take_running_report(Time now);

  // ---- threads that run calls
  // A call waits for a thread. `form` is its form.
  void call_started(std::shared_ptr<TaskContext> context, const CallForm& form, bool may_run_again);
  const std::shared_ptr<TaskContext>& context(std::uint64_t token) { return contexts_.at(token); }
  bool runs_calls() const { return !contexts_.empty(); }
  bool to_destroy() const { return to_destroy_; }
  void destroying_actor() { to_destroy_ = false; }
  ParkedThread& parked() { return parked_; }

  const executor::RanCalls& ran() const { return core_.ran(); }
  const executor::ItemWindows& items() const { return core_.items(); }
  void flush_recording() {
    if (recorder_) recorder_->flush();
  }

 private:
  struct Fetch {
    std::vector<ObjectId> objects;
    RefRecords tensors;  // tensors in arguments by value; all tensors once the objects are here
    bool has_all_tensors = false;
    LocalTensors::PullPtr pull;  // pull of all tensors; set once the objects are here
    bool reported = false;
  };

  void check_fetches();
  bool is_fetched(std::uint64_t token, Fetch& fetch);
  executor::ArgumentsFetched outcome_of(std::uint64_t token, const Fetch& fetch) const;
  void find_tensors(Fetch& fetch) const;
  std::uint64_t bytes_to_hold(const RefRecords& tensors) const;
  void add_results_held();
  void change_trust(const TrustChanged& trust);
  void note_running(const std::string& name, TaskId task, bool may_run_again);

  const AssignExecutor assignment_;
  const std::unique_ptr<Recorder> recorder_;
  StepEvents& events_;
  const ClientCore& caller_;
  LocalTensors* tensors_ = nullptr;  // null until the runtime of the process exists
  executor::ExecutorCore core_;

  bool open_ = false;
  std::vector<AgentToProcess> early_messages_;
  std::vector<executor::ReceivedFromCaller> early_calls_;
  executor::Event received_;       // input of the next step_with_frame(): a frame
  std::vector<std::byte> record_;  // member only to reuse its memory
  std::vector<RunnerJobs> jobs_;   // by group, and those of calls outside the order last
  Table<std::uint64_t, std::shared_ptr<TaskContext>> contexts_;
  std::vector<UnsettledCall> unsettled_;
  PooledMap<std::uint64_t, Fetch> fetches_;
  executor::PrefetchBudget ahead_{transfer::RegionOptions().max_receive_bytes};
  bool fetches_due_ = false;  // a fetch may have ended, or prefetch budget was freed
  bool tensors_due_ = false;
  ResidentResults reported_held_;
  bool evacuating_ = false;
  ParkedThread parked_;
  bool to_destroy_ = false;  // the next free thread that runs calls destroys the actor
  TicketClock ticket_clock_;
  Callers callers_;
  executor::RunningReports running_;
  bool running_changed_ = false;   // a report is due now
  std::optional<Time> report_at_;  // a delayed report is due
};

}  // namespace mobula::internal::client
