// Files of a job: a directory, and programs with their libraries apart from the C library. They are
// packed into one file, with equal bytes for equal files, and unpacked on a node.
// Thread: any; reads and writes files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal::deploy {

//   work/…   the directory, in which the job runs
//   bin/…    programs, first in the PATH of the job
//   lib/…    their libraries
//
// The bytes of a file and the execute permission of its owner are packed, but no times, owners, or
// other modes. A link is packed if its target is below its directory.

constexpr std::uint64_t max_job_files_bytes = std::uint64_t{256} << 20;
constexpr std::size_t max_job_files_entries = 100'000;

struct JobFilesSource {
  std::string directory{};              // empty: none
  std::vector<std::string> programs{};  // paths of files
  // libraries that programs open by name; they keep their names
  std::vector<std::string> libraries{};
};

struct JobFiles {
  Fd file{};  // an unlinked file
  std::uint64_t size_bytes = 0;
  Hash128 hash{};  // first 128 bits of its SHA-256
};

// Packs the files. Excludes `.git` and entries that match .mobulaignore in the directory: one
// pattern of fnmatch(3) per line, for the name of an entry or, with a slash, for its path from the
// directory.
// Errors: invalid_argument with the entry and reason, for another kind of entry, a link out of the
// directory, a control character in a name, an unreadable or changing file. resource_exhausted
// names the largest entries of a package that is too large.
Result<JobFiles> pack_job_files(const JobFilesSource& source,
                                std::uint64_t max_bytes = max_job_files_bytes);

// Creates `directory`, which must not exist, and its contents, for this user only. Rejects other
// files as corrupt, and never writes outside of the directory.
Result<void> unpack_job_files(int file, const std::string& directory);

}  // namespace mobula::internal::deploy
