// Meaning of the result codes of SQLite, for all directories with SQLite files.
// Thread: any.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal {

ErrorCode sqlite_error_code(int code);

// Replaces the code of an I/O failure by SQLITE_FULL if the disk of the file is full: a full disk
// causes other codes too, for example because the file of shared memory cannot grow.
int sqlite_code_with_full_disk(int code, const std::string& path);

}  // namespace mobula::internal
