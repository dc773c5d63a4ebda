// Options of ProcessEngine and of its callee half.
// Thread: any (values).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "client/core/client_options.h"
#include "client/executor/core/executor_commands.h"
#include "mobula/detail/runtime.h"
#include "protocol/messages/local_control.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::client {

struct EngineOptions {
  ClientOptions core;
  std::string ticket;          // presented to executors
  std::string trace_parent{};  // TRACEPARENT of the process; empty: it has none
  RecordOptions record;        // recording of the core's inputs
  std::string record_role = "driver";
  Duration ring_idle = 30s;      // idle time after which rings to executors are closed
  Duration longest_spin = 50us;  // longest spin of a leader, unless the agent sets it
};

// Runs the calls that the executor core starts. Owner: outlives the engine.
class StartedCalls {
 public:
  // Takes the calls among the commands of one step; the others stay. With the engine's lock held.
  virtual void take(std::vector<executor::Command>& commands) = 0;

 protected:
  ~StartedCalls() = default;
};

// A process that serves calls.
struct CalleeOptions {
  AssignExecutor assignment;
  StartedCalls& runner;
  std::unique_ptr<Recorder> recorder{};  // recording of the executor core's inputs; null: none
};

}  // namespace mobula::internal::client
