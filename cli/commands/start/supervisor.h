// The process that `mobula start` leaves running: parent of a head, of an agent under its shim, or
// of both. Starts them in order, passes signals on, and ends the agent before the head. It restarts
// a head that crashed (SIGABRT, SIGSEGV, and similar) after a backoff.
// Thread: main, before any other thread starts; blocks.
// Not: restarts of a head that exited or was killed, and of an agent. `mobula start` does that.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time.h"
#include "cli/commands/start/role_plans.h"

namespace mobula::internal::cli {

struct SupervisorPlan {
  std::string directory;  // directory of the cluster
  std::optional<HeadPlan> head;
  std::optional<AgentPlan> agent;  // next to a head, its address and key are filled in
  // Runs the autoscaler until a signal. It is started again whenever it exits.
  std::function<int()> autoscaler{};
  // Called in a child process with the address of the ready head, before the agent starts. Returns
  // the reason against an agent next to that head, or an empty text.
  std::function<std::string(const std::string& head_address)> refuses_agent;
  bool together = false;    // the end of one ends the other immediately
  bool recorded = true;     // writes a record for `mobula stop`
  bool is_service = false;  // a service manager started this process and gets notifications
  bool has_shim = false;    // the parent of this process is its shim
  // Readable when no process waits for the start any more. The start is then abandoned.
  int starter_fd = -1;
  Duration unsaid = std::chrono::seconds(10);  // silence of an agent before a report
  int life_fd = -1;                            // end of file ends all processes
  Duration restart_backoff_initial =
      std::chrono::milliseconds(200);  // before a crashed head is restarted
  Duration restart_backoff_max = std::chrono::seconds(30);
};

// Supervises until all processes have exited. When all are ready, the report is a JSON text:
// "address" of the head, "warnings" of the head, and with an agent "socket" and "node_id". Before
// that, it reports the reason for waiting. On failure: {"exit": the exit code, "error": the
// reason}.
int supervise(const Programs& programs, const SupervisorPlan& plan, const Report& report);

}  // namespace mobula::internal::cli
