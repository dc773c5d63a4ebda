// Starts an agent under its shim in the background, as `mobula start` does, and returns the result
// of the start.
// Thread: the main thread, before any other thread starts.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "worker/process/orphans.h"

namespace mobula::internal::worker {

// Reports the result of a start from a background program to its starter. The first call of `ready`
// or `failed` counts. An exit without either is a failure.
class Readiness {
 public:
  explicit Readiness(Fd pipe) : pipe_(std::move(pipe)) {}
  void ready(const std::string& message);
  void failed(const std::string& why);
  // Reports the reason of a wait; any number of times before the result.
  void waiting(const std::string& why);

 private:
  void tell(char kind, const std::string& text);
  Fd pipe_;
};

struct Daemon {
  pid_t shim = 0;
  std::string message;  // text that the agent passed to `ready`
};

// Runs `agent_main` under an agent shim in the background: own session, stdin from /dev/null,
// stdout and stderr appended to `log_path`, not a child of the caller. Returns when the agent
// reports that it is ready. Fails with the agent's message, or with its exit cause and the last
// lines of its log. `waiting` receives reasons of a wait. `given_up` is called at intervals: once
// it returns true, the agent receives SIGTERM, and its result is awaited. `spares`: see
// agent_shim.h.
Result<Daemon> start_daemon(const std::string& log_path,
                            const std::function<int(Readiness&)>& agent_main,
                            const std::function<void(const std::string&)>& waiting = {},
                            const std::function<bool()>& given_up = {},
                            const SparedProcesses& spares = {});

}  // namespace mobula::internal::worker
