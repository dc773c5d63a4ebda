// The process that `mobula start` leaves running: parent of a head, of an agent under its keeper,
// or of both. Starts them one after the other, passes signals on, and ends the agent before the
// head. It restarts a head that crashed (SIGABRT, SIGSEGV and the like) after a backoff. A head that
// exited or was killed, and an agent that died, is started again with `mobula start`.
// Blocks; call before any thread is started.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "cli/programs.h"

namespace mobula::internal::cli {

struct SupervisorPlan {
  std::string folder;  // of the cluster
  std::optional<HeadPlan> head;
  std::optional<AgentPlan> agent;  // beside a head its address and key are filled in
  bool together = false;           // when one of them ends, so does the other, and at once
  bool recorded = true;            // a record for `mobula stop` is kept
  bool is_service = false;         // it is this process that a service manager started, and hears of
  bool has_keeper = false;         // the parent of this process is its keeper
  int starter_fd = -1;  // readable once nobody waits for the start any more: it is given up then
  Duration unsaid = std::chrono::seconds(10);  // after so long without a word of an agent that starts, that is said
  int life_fd = -1;     // end of file there ends everything
  Duration restart_backoff_initial = std::chrono::milliseconds(200);  // before a crashed head is restarted
  Duration restart_backoff_max = std::chrono::seconds(30);
};

// What is told when all of it is ready, as JSON text: "address" of the head, and with an agent
// "socket" and "node_id", of a head "warnings". Before that, why it waits.
// On failure: {"exit": the exit code to end with, "error": why}.
int supervise(const Programs& programs, const SupervisorPlan& plan, const Report& report);

}  // namespace mobula::internal::cli
