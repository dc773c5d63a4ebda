// Runs one call of user code: decodes its arguments, and stores its results or adds them to the
// reply. Refs that user code keeps are held before the reply is sent.
// Thread: any thread of the executor that runs calls.
#pragma once

#include <map>
#include <memory>

#include "client/engine/process_runtime.h"
#include "client/executor/core/executor_core.h"

namespace mobula::internal::executor {

// The actor of this process, set after its constructor returned.
struct ActorInstance {
  std::shared_ptr<void> object;
  const void* class_tag = nullptr;  // class of the constructor that made it
};

struct RanCall {
  CallFinished finished;  // input of settle_call()
  RefRecords reachable;   // refs that user code can reach through the arguments
};

// `assignment` and `runtime` must outlive the call. `context` is the task that current() reports to
// user code.
RanCall run_call(const RunCall& run, const AssignExecutor& assignment,
                 const std::shared_ptr<client::ProcessRuntime>& runtime,
                 const std::shared_ptr<client::TaskContext>& context, ActorInstance& actor);
// Refs that arrived in the arguments of a call.
struct ArgumentRefs {
  RefRecords reachable;
  PooledVector<ObjectId> lent;  // borrowed ones among them
};
// Called after the call's own refs to its arguments were released. Waits until refs that user code
// keeps are held, and stored refs in its results are exported. Releases the lock while it waits.
void settle_call(CallFinished& finished, const RunCall& run, client::ProcessRuntime& runtime,
                 ArgumentRefs arguments, client::ProcessEngine::Lock& lock);

// Values of current() that are equal for all calls of this process.
std::shared_ptr<const detail::ContextRecord> record_of_process(const AssignExecutor& assignment);

}  // namespace mobula::internal::executor
