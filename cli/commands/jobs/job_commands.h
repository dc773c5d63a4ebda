// Commands for submitted jobs: submit, run, wait, and `job list|status|logs|stop`. Output is read
// from the head by offset, so that a restart of the head loses nothing.
// Thread: main; each command returns an exit code.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// The descriptor on which `mobula repl` receives the id of the job that its command submitted.
inline constexpr const char* console_id_variable = "MOBULA_CONSOLE_ID_FD";

// Prints the id with --no-wait. Otherwise follows; an interruption leaves the job running.
int submit_job(const CommandLine& line);
// Follows; an interruption ends the job.
int run_job(const CommandLine& line);
int wait_for_job(const CommandLine& line);
int job_command(const CommandLine& line);

}  // namespace mobula::internal::cli
