// The files that travel with a job: a folder, and programs with the libraries that they need beyond the C
// library's. Packed into one file, the same bytes for the same files, and unpacked on a node:
//
//   work/…   the folder; the job runs in it
//   bin/…    programs, which go first in its PATH
//   lib/…    their libraries
//
// Of a file its bytes count and whether its owner may execute it; not its times, its owner or other modes.
// A link is packed where it leads to something below its folder. Reads and writes files; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal::deploy {

constexpr std::uint64_t max_job_files_bytes = std::uint64_t{256} << 20;
constexpr std::size_t max_job_files_entries = 100'000;

struct JobFilesSource {
  std::string folder{};                 // empty: none
  std::vector<std::string> programs{};  // paths of files
  std::vector<std::string> libraries{};  // that programs open by their names, which they keep
};

struct JobFiles {
  Fd file{};  // of no name
  std::uint64_t size_bytes = 0;
  Hash128 hash{};  // the first 128 bits of its SHA-256
};

// invalid_argument names the entry and why it is refused: what is no file, folder or link within the folder,
// a name with control characters, a file that cannot be read or changes meanwhile. resource_exhausted names
// the largest of what is too large. `.git` and what a file .mobulaignore in the folder names stay behind: a
// pattern of fnmatch(3) a line, for the name of an entry or, with a slash in it, for its path from the folder.
Result<JobFiles> pack_job_files(const JobFilesSource& source, std::uint64_t max_bytes = max_job_files_bytes);

// Makes `folder`, which must not be there, and all of it in it, for this user alone. What was not packed by
// the above is refused as corrupt, and nothing is ever written outside of the folder.
Result<void> unpack_job_files(int file, const std::string& folder);

}  // namespace mobula::internal::deploy
