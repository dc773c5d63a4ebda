// Which files a running program consists of, and their hashes: the executable and the non-system
// libraries it has mapped. Reads /proc; blocks on the disk. For shells, at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/program.h"

namespace mobula::internal {

// Paths of the executable (first) and of the libraries that are not the system's (not under /lib or
// /usr/lib), as `pid` (0: this process) has them mapped.
Result<std::vector<std::string>> program_paths(std::int64_t pid);

// Where the transport plug-ins are that were installed with this library or program: lib/mobula. Empty: nowhere.
std::string plugins_beside(const std::string& file);

// The first 128 bits of the SHA-256 of bytes that come in parts. One thread at a time.
class RunningHash {
 public:
  RunningHash();
  RunningHash(RunningHash&&) noexcept;
  RunningHash& operator=(RunningHash&&) noexcept;
  ~RunningHash();
  void add(std::span<const std::byte> bytes);
  Hash128 end();  // once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The first 128 bits of the file's SHA-256.
Result<Hash128> hash_file(const std::string& path);

// Files and id of a running program; arguments, folder and source are left empty.
Result<ProgramRecord> describe_program(std::int64_t pid);

}  // namespace mobula::internal
