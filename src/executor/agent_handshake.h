// The first messages between an executor and its agent. A process that does not get them cannot run and exits.
// Thread: the main thread, before any other exists.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "protocol/local_control.h"
#include "transport/process_sockets.h"

namespace mobula::internal::executor {

[[noreturn]] void refuse_to_start(const Failure& why);
PrepareExecutor receive_prepare(const Fd& link);
std::unique_ptr<ProcessSockets> open_sockets(const PrepareExecutor& prepare);
// A prestarted executor may wait for a long time. It exits with its agent.
AssignExecutor wait_for_assignment(const Fd& link);

}  // namespace mobula::internal::executor
