// Runs one call of user code: arguments become values, results go to the store or into the answer,
// what the code keeps is held before anybody learns the result. Any thread of the executor.
#pragma once

#include <map>
#include <memory>

#include "client/process_runtime.h"
#include "executor/core/executor_core.h"

namespace mobula::internal::executor {

// The actor of this process, once its constructor has run.
struct ActorInstance {
  std::shared_ptr<void> object;
  const void* class_tag = nullptr;  // of the constructor that made it
};

struct RanCall {
  CallFinished finished;             // to be settled
  RefRecords reachable;  // everything that the arguments let user code get hold of
};

// `assignment` and `runtime` outlive the call. The context is the one that current() shows inside.
RanCall run_call(const RunCall& run, const AssignExecutor& assignment,
                 const std::shared_ptr<client::ProcessRuntime>& runtime,
                 const std::shared_ptr<client::TaskContext>& context, ActorInstance& actor);
// What the arguments of a call have brought.
struct ArgumentRefs {
  RefRecords reachable;
  RecycledVector<ObjectId> lent;  // of these
};
// Once the call's own refs on its arguments are gone: waits until what it keeps is held, and what leaves in
// its results is stored. Gives the lock up meanwhile.
void settle_call(CallFinished& finished, const RunCall& run, client::ProcessRuntime& runtime,
                 ArgumentRefs arguments, client::ProcessEngine::Lock& lock);

// What current() shows in all calls of this process, and in this one.
std::shared_ptr<const detail::ContextRecord> record_of_process(const AssignExecutor& assignment);
std::shared_ptr<client::TaskContext> make_context(const RunCall& run,
                                                  std::shared_ptr<const detail::ContextRecord> of_process);

}  // namespace mobula::internal::executor
