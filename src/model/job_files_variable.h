// The variable in a submitted job's environment that names the files it came with, by their hash; none where
// it came with none.
#pragma once

namespace mobula::internal {

inline constexpr const char* job_files_variable = "MOBULA_JOB_FILES";
// Before the names of variables that are set for the job's program alone, once its files are there.
inline constexpr const char* later_prefix = "MOBULA_LATER_";

}  // namespace mobula::internal
