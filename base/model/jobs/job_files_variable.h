// Names of environment variables for the files of submitted jobs. MOBULA_JOB_FILES holds the hash
// of the files that a job was submitted with; absent without files.
// Thread: any (constants).
#pragma once

namespace mobula::internal {

inline constexpr const char* job_files_variable = "MOBULA_JOB_FILES";
// Prefix of variables that are set only for the job's program, once its files have arrived.
inline constexpr const char* later_prefix = "MOBULA_LATER_";

}  // namespace mobula::internal
