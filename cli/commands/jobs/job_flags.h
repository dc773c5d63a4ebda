// Flags of a job: its command, resources, and files; and the grammar of the commands that take
// them.
// Thread: main, at start.
// Errors: invalid_argument names the flag.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace mobula::internal::cli {

struct JobFlags {
  std::string action{};  // `job`: list, status, logs, or stop
  std::vector<std::string> argv{};
  std::string name{};
  std::vector<std::string> env{};     // NAME=VALUE each
  std::vector<std::string> labels{};  // NAME=VALUE each
  std::vector<std::string> selector{};
  std::string workdir{};                // local directory to copy
  std::vector<std::string> ship{};      // local programs to copy
  std::vector<std::string> ship_lib{};  // libraries that those open by name
  std::string cwd{};                    // directory of the node
  std::string num_cpus{}, num_gpus{}, gpu_memory{}, memory{}, resources{}, accelerator_type{};
  int priority = 0;
  std::int64_t retries = 0;
  double time_limit = 0;  // seconds; 0: none
  double grace = 10;      // seconds
  bool no_wait = false;
  bool no_progress = false;
};

// Adds the options of a job to a command that submits one.
void add_job_options(CLI::App& command, JobFlags& flags);

// Returns the text of `submit`, for a job with this id and the files of this name (see
// job_upload.h; empty: none).
Result<std::string> submission_text(const JobFlags& flags, const std::string& job_id,
                                    const std::string& files);

}  // namespace mobula::internal::cli
