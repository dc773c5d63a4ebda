// Receives the inputs of a ProcessEngine that concern the process as a whole.
// Thread: the engine's lock is held, on the loop thread, unless a function states another rule.
// Owner: outlives the engine.
// Not: inputs of calls, which the halves of the engine receive (CallerHalf, CalleeHalf).
#pragma once

#include <memory>

#include "base/result.h"
#include "client/executor/core/executor_commands.h"
#include "protocol/messages/agent_to_process.h"

namespace mobula::internal::client {

struct TaskContext;

class EngineOwner {
 public:
  virtual ~EngineOwner() = default;

  virtual void received_from_agent(const AgentToProcess& /*message*/) {}
  // The agent closed the link. Without the lock.
  virtual void agent_lost(const Failure& /*why*/) {}
  // The state of an object changed. On any thread, in a step: it must not step the engine.
  virtual void object_changed() {}

  // ---- a callee, on any thread
  // The first call outside the actor's order is queued. In a step.
  virtual void beside_call_queued() {}
  // A running call was cancelled. In a step.
  virtual void call_cancelled(const std::shared_ptr<TaskContext>& /*call*/) {}
  // The process exits as planned: its calls and replies are complete. After the step.
  virtual void leave(const executor::Leave& /*command*/) {}
};

}  // namespace mobula::internal::client
