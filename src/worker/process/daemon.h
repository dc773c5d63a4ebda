// Starts an agent under a keeper in the background, as `mobula start` does, and hears from it how
// that went. Call before any thread is started.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::worker {

// How a program in the background tells the one that started it how its start went. Exactly one of
// the two counts, the first; ending without either is a failure too.
class Readiness {
 public:
  explicit Readiness(Fd pipe) : pipe_(std::move(pipe)) {}
  void ready(const std::string& message);
  void failed(const std::string& why);
  // Before either, and any number of times: what it waits for.
  void waiting(const std::string& why);

 private:
  void tell(char kind, const std::string& text);
  Fd pipe_;
};

struct Daemon {
  pid_t keeper = 0;
  std::string message;  // what the agent said when it was ready
};

// Runs `agent_main` under a keeper in the background: own session, stdin from /dev/null, stdout and
// stderr appended to `log_path`, no child of the caller. Returns when the agent says that it is
// ready; fails with what it said, or with how it ended and the last lines of its log. Meanwhile
// `waiting` is told what it waits for. `given_up` is asked now and then:
// once it holds, the agent is told to end, as by SIGTERM, and what it says then is waited for.
Result<Daemon> start_daemon(const std::string& log_path,
                            const std::function<int(Readiness&)>& agent_main,
                            const std::function<void(const std::string&)>& waiting = {},
                            const std::function<bool()>& given_up = {});

}  // namespace mobula::internal::worker
