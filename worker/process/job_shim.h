// The job shim: the process above the command of one submitted job. It is a subreaper, so all
// processes that the command starts remain below it, whatever they do. It exits when none is left,
// and reports the start and the end of the command over its socket. If its agent exits, it kills
// all descendants. It ignores signals that request an end. `mobula job-job_shim FD` runs one; an
// agent starts its own program for it, so both ends are of one build.
// Thread: owner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "protocol/codec/codec.h"
#include "worker/process/pool/launch.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {

// The command, sent to its shim in a memory file, because an environment may be large.
struct JobShimRequest {
  std::string program;  // path
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string working_directory;
  std::string scratch_directory;
  bool needs_working_directory = false;
  MOBULA_FIELDS(program, argv, environment, working_directory, scratch_directory,
                needs_working_directory);
};

// Reports the command: once after its start, once after its end.
struct JobShimEvent {
  bool ended = false;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // as in PidIdentity
  std::int32_t status = 0;       // status of waitpid
  MOBULA_FIELDS(ended, pid, start_time, status);
};

struct StartedJobShim {
  PidIdentity identity;
  Fd pidfd;
  Fd control;  // non-blocking
};

// `job_shim`: program and first arguments of the shim. `environment`: of the shim, not of the
// command. `output_fd`: stdout and stderr of both.
Result<StartedJobShim> start_job_shim(const std::vector<std::string>& job_shim,
                                      std::vector<std::string> environment,
                                      const JobShimRequest& order, int output_fd);
// Received reports; empty if none are available. not_found: no more will follow.
Result<std::vector<JobShimEvent>> read_job_shim(int control);

// Runs the shim until its end and returns its exit code. `control_fd`: the last argument of the
// shim. Call before any thread starts.
int run_job_shim(const std::string& control_fd);

}  // namespace mobula::internal::worker
