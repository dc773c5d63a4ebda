// `mobula job-start`, which an agent runs in the place of a job's program when the job came with files: brings
// them from the head unless the node has them, unpacks them, and becomes the program. Same process, so that
// signals, exit code and output are the program's. Main thread, before any other.
#pragma once

namespace mobula::internal::cli {

// `mobula job-start HEAD KEY HASH CACHE FOLDER -- PROGRAM ARGUMENTS...`. Returns only where that fails, with 127
// and the reason on stderr.
int start_job_program(int argc, char** argv);

}  // namespace mobula::internal::cli
