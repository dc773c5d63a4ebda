// Runs one call of user code: decodes its arguments, and stores its results or adds them to the
// reply. Refs that user code keeps are held before the reply is sent.
// Thread: any thread of the executor that runs calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/engine/callee_half.h"
#include "client/engine/process_runtime.h"
#include "client/executor/core/executor_core.h"
#include "client/executor/deferred_call.h"

namespace mobula::internal::executor {

// The actor of this process, set after its constructor returned.
struct ActorInstance {
  std::shared_ptr<void> object;
  const void* class_tag = nullptr;  // class of the constructor that made it
};

struct RanCall {
  CallFinished finished;                   // input of settle_call(), unless deferred
  RefRecords reachable;                    // refs that user code can reach through the arguments
  std::shared_ptr<DeferredCall> deferred;  // shared with its promise; the call ends through it
};

// The runtime of `host` must outlive the call. `context` is the task that current() reports to user
// code.
RanCall run_call(const RunCall& run, const DeferredCall::Host& host,
                 const std::shared_ptr<client::TaskContext>& context, ActorInstance& actor);
// The stored results of a call, the unfinished tasks behind refs in them, and its duration.
struct RanResults {
  Results records;
  client::HandedOver given;
  Duration run_time{};
};
// The end of a call with this outcome. Takes the engine's lock.
CallFinished finished_call(const RunCall& run, const std::string& node,
                           client::ProcessEngine& engine, const client::TaskContext& context,
                           detail::Outcome&& outcome, RanResults&& results);
// Refs that arrived in the arguments of a call.
struct ArgumentRefs {
  RefRecords reachable;
  PooledVector<ObjectId> lent;  // borrowed ones among them
};
// Releases the call's own refs to its arguments. Releases the lock temporarily.
ArgumentRefs release_arguments(std::uint64_t token, RefRecords reachable,
                               client::ProcessRuntime& runtime, client::ProcessEngine::Lock& lock);
// Called after release_arguments(). Waits until refs that user code keeps are held, and stored refs
// in its results are exported. Releases the lock while it waits.
void settle_call(CallFinished& finished, const RunCall& run, client::ProcessRuntime& runtime,
                 ArgumentRefs arguments, client::ProcessEngine::Lock& lock);
// The same without the wait: returns the call if it must wait, which moves `finished`.
std::optional<client::UnsettledCall> begin_settling(CallFinished& finished, const RunCall& run,
                                                    client::ProcessRuntime& runtime,
                                                    ArgumentRefs arguments,
                                                    client::ProcessEngine::Lock& lock);

// Values of current() that are equal for all calls of this process.
std::shared_ptr<const detail::ContextRecord> record_of_process(const AssignExecutor& assignment);

}  // namespace mobula::internal::executor
