// Brings the files of a job to the head, before the job is submitted. Main thread.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "cli/job_flags.h"

namespace mobula::internal::cli {

// Asks the head; the verb, the kind and the argument.
using AskHead =
    std::function<Result<nlohmann::ordered_json>(const std::string&, const std::string&, const std::string&)>;

// Packs what --workdir and --ship name and sends what the head lacks; how far it is stands on a terminal's stderr.
// The name of the files, empty where there are none. invalid_argument and resource_exhausted name the flag or the
// entry.
Result<std::string> upload_job_files(const JobFlags& flags, const AskHead& ask);

}  // namespace mobula::internal::cli
