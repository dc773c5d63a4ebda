// `mobula job-start`, which an agent runs in place of a job's program if the job has files. It
// fetches and unpacks them, then becomes the program. The process stays the same, so signals, exit
// code, and output need no forwarding.
// Thread: main, before any other thread starts.
#pragma once

namespace mobula::internal::cli {

// Runs `mobula job-start HEAD KEY HASH CACHE FOLDER -- PROGRAM ARGUMENTS...`. Returns only on
// failure, with 127 and the reason on stderr.
int start_job_program(int argc, char** argv);

}  // namespace mobula::internal::cli
