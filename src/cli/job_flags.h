// What the user says of a job: its command, what it asks for, how it is run. Values, and the grammar of the
// commands that take them; for the main thread at start.
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
  std::string action{};  // of `job`: list, status, logs, stop
  std::vector<std::string> argv{};
  std::string name{};
  std::vector<std::string> env{};     // NAME=VALUE each
  std::vector<std::string> labels{};  // likewise
  std::vector<std::string> selector{};
  std::string workdir{};            // a folder here, which travels
  std::vector<std::string> ship{};  // programs here, which travel
  std::vector<std::string> ship_lib{};  // libraries that they open by name
  std::string cwd{};                // a folder of the node
  std::string num_cpus{}, num_gpus{}, gpu_memory{}, memory{}, resources{}, accelerator_type{};
  int priority = 0;
  std::int64_t retries = 0;
  double time_limit = 0;  // seconds; 0: none
  double grace = 10;      // seconds
  bool no_wait = false;
  bool no_progress = false;
};

// Options of a job, for a command that submits one.
void add_job_options(CLI::App& command, JobFlags& flags);

// The text of `submit`, for a job with this id and the files of this name (job_upload.h; empty: none).
// invalid_argument names the flag.
Result<std::string> submission_text(const JobFlags& flags, const std::string& job_id, const std::string& files);

}  // namespace mobula::internal::cli
