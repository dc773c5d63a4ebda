// Runs the calls that the executor core started: decodes arguments, runs user code, and stores
// results or adds them to the reply. Refs that user code keeps are held before the reply is sent.
// Thread: any thread of the executor that runs calls.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/queue.h"
#include "client/api/untyped/language_host.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/engine_options.h"
#include "client/engine/process_runtime.h"
#include "client/executor/core/executor_core.h"
#include "client/executor/deferred_call.h"
#include "client/executor/output_label.h"

namespace mobula::internal::executor {

// The actor of this process. It is set when the actor's constructor has returned.
struct ActorInstance {
  std::shared_ptr<void> object;
  const void* class_tag = nullptr;  // class of the constructor that made it
};

struct RanCall {
  RunCall run;
  CallFinished finished;                   // reply; not used if the call is deferred
  RefRecords reachable;                    // refs that user code can reach through the arguments
  std::shared_ptr<DeferredCall> deferred;  // shared with the promise that completes the call
};

// The started calls of an executor process, and its actor.
// Thread: any; with the engine's lock held, unless a function states another rule.
class CallRunner final : public client::StartedCalls {
 public:
  explicit CallRunner(const AssignExecutor& assignment);

  // Called when the runtime exists, before the first call. `host` outlives the runner.
  void open(const DeferredCall::Host& host,
            std::shared_ptr<const detail::ContextRecord> of_process);
  void take(std::vector<Command>& commands) override;
  // True if calls of the concurrency group wait. CallGroups::no_group stands for the calls outside
  // the actor's order.
  bool has_calls(std::uint32_t group) { return !queue(group).empty(); }
  // Runs the user code of the group's oldest waiting call, without the lock. The caller then calls
  // finish(). Returns nullopt if the call is deferred. Must not be called in a step.
  std::optional<RanCall> run_next(std::uint32_t group, client::ProcessEngine::Lock& lock);
  // Sends the reply. Returns true for a short call: its reply may wait for the next one. Releases
  // the lock until the refs that user code keeps are held. Must not be called in a step. Moves from
  // `ran`.
  bool finish(RanCall& ran, client::ProcessEngine::Lock& lock);
  // Removes the actor object, whose destructor is user code.
  std::shared_ptr<void> take_actor() { return std::exchange(actor_.object, nullptr); }

 private:
  struct Started {
    RunCall run;
    std::shared_ptr<client::TaskContext> context;  // shared with the callee half
  };
  using Arguments = PooledVector<detail::StoredValue>;

  Queue<Started>& queue(std::uint32_t group) {
    return queues_[std::min<std::size_t>(group, queues_.size() - 1)];
  }
  // The following functions run user code, so the caller does not hold the lock.
  void label_output(const RunCall& run, Time now);
  void run_call(const Started& started, Time began, RanCall& ran);
  void share_tensors();
  bool is_neutral(const CallForm& form, const client::UntypedCaller& caller) const;
  detail::Outcome run_entry(const Started& started, std::span<detail::StoredValue> arguments,
                            detail::ResultSink& results);

  const std::string class_name_;  // class of the actor; empty for tasks
  const bool labels_;             // output lines have a label, because one call runs at a time
  const DeferredCall::Host* host_ = nullptr;
  std::shared_ptr<const detail::ContextRecord> of_process_;  // shared by all contexts
  std::vector<Queue<Started>> queues_;  // one per group; the last: calls outside the order
  ActorInstance actor_;
  OutputLabel label_{STDERR_FILENO};  // used by the thread that runs calls
};

// Makes the context of a call. `of_process` has the values that all calls of the process share.
std::shared_ptr<client::TaskContext> make_context(
    const RunCall& run, std::shared_ptr<const detail::ContextRecord> of_process);

// Makes the reply of a call from its outcome and results. Takes the engine's lock.
CallFinished finished_call(const RunCall& run, const std::string& node,
                           client::ProcessEngine& engine, const client::TaskContext& context,
                           detail::Outcome&& outcome, RanResults&& results);
// Refs that arrived in the arguments of a call.
struct ArgumentRefs {
  RefRecords reachable;
  PooledVector<ObjectId> lent;  // objects of the borrowed refs among them
};
// Releases the call's own refs to its arguments. Releases the lock temporarily.
ArgumentRefs release_arguments(std::uint64_t token, RefRecords reachable,
                               client::ProcessRuntime& runtime, client::ProcessEngine::Lock& lock);
// Called after release_arguments(). Waits until refs that user code keeps are held, and stored refs
// in its results are exported. Releases the lock while it waits.
void settle_call(CallFinished& finished, const RunCall& run, client::ProcessRuntime& runtime,
                 ArgumentRefs arguments, client::ProcessEngine::Lock& lock);
// Does the same without a wait: if the call must wait, moves `finished` into the returned value.
std::optional<client::UnsettledCall> begin_settling(CallFinished& finished, const RunCall& run,
                                                    client::ProcessRuntime& runtime,
                                                    ArgumentRefs arguments,
                                                    client::ProcessEngine::Lock& lock);

// Values of current() that are equal for all calls of this process.
std::shared_ptr<const detail::ContextRecord> record_of_process(const AssignExecutor& assignment);

}  // namespace mobula::internal::executor
