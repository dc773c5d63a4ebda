#include "client/executor/executor_process.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "client/api/untyped/language_host.h"
#include "client/executor/crash_trace.h"
#include "client/executor/executor_shell.h"
#include "client/executor/executor_start.h"
#include "client/executor/gpu_start.h"
#include "transport/bus/process_sockets.h"

namespace mobula::internal::executor {
namespace {

std::unique_ptr<ProcessSockets> open_sockets(const PrepareExecutor& prepare) {
  SocketOptions options;
  options.keys = {prepare.curve_public_key, prepare.curve_secret_key};
  options.local_bind = prepare.local_endpoint;
  if (!prepare.bind_host.empty()) options.host_bind = prepare.bind_host + ":0";
  auto sockets = ProcessSockets::open(options);
  if (!sockets) refuse_to_start(sockets.error());
  return std::move(*sockets);
}

}  // namespace

[[noreturn]] void run_executor(ForkedExecutor start) {
  auto prepare = receive_preparation(start.link);
  auto sockets = open_sockets(prepare);
  AssignExecutor assignment = receive_assignment(start.link);
  for (const auto& [name, value] : assignment.accelerator_env)
    ::setenv(name.c_str(), value.c_str(), 1);
  set_library_environment(prepare, assignment);
  trace_crashes_if_enabled();
  // Never destroyed: the process ends by _exit while its threads may still use it.
  auto* process = new ExecutorShell(std::move(prepare), std::move(assignment), std::move(sockets),
                                    std::move(start.link));
  if (auto started = process->start(); !started.ok()) refuse_to_start(started.error());
  const auto assigned = client::call_hook("assigned", &dynamic::Host::assigned);
  if (!assigned) refuse_to_start(assigned.error());
  process->run_calls();
}

}  // namespace mobula::internal::executor
