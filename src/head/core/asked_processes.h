// Which processes are asked where drivers and executors answer for themselves, and what is said of those
// that do not. Part of HeadCore.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"

namespace mobula::internal::head {

struct Parts;

using AskedProcesses = std::map<ProcessId, std::string>;  // and what each is, for people

// All of the job, or of all jobs; a bounded number. `warnings` say who is not asked.
AskedProcesses processes_to_ask(const Parts& parts, JobId job, std::vector<std::string>& warnings);
// These have not answered in time: so `unknown` ("what it owns") is not known.
void warn_of_silent(const Parts& parts, const AskedProcesses& silent, const std::string& unknown,
                    std::vector<std::string>& warnings);

}  // namespace mobula::internal::head
