// Uploads the files of a job to the head, before the job is submitted.
// Thread: main.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "cli/commands/jobs/job_flags.h"

namespace mobula::internal::cli {

// Queries the head: verb, kind, and argument.
using RequestHead = std::function<Result<nlohmann::ordered_json>(
    const std::string&, const std::string&, const std::string&)>;

// Packs the files of --workdir and --ship and sends what the head lacks, with progress on a
// terminal's stderr. Returns the name of the files, empty without files. invalid_argument and
// resource_exhausted name the flag or the file.
Result<std::string> upload_job_files(const JobFlags& flags, const RequestHead& request);

}  // namespace mobula::internal::cli
