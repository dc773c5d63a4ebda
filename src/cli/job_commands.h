// Commands about submitted jobs: submit, run, wait, and `job list|status|logs|stop`. A job's output is read
// from the head by offset, so nothing is lost when the head is restarted. Main thread; each returns an exit code.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// The descriptor on which `mobula repl` hears which job a command of its has submitted.
inline constexpr const char* console_id_variable = "MOBULA_CONSOLE_ID_FD";

// Prints the id with --no-wait; else follows, and an interruption leaves the job running.
int submit_job(const CommandLine& line);
// Follows; an interruption ends the job.
int run_job(const CommandLine& line);
int wait_for_job(const CommandLine& line);
int job_command(const CommandLine& line);

}  // namespace mobula::internal::cli
