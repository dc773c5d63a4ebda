// Lists and hashes the files of a running program: the executable and its mapped non-system
// libraries.
// Thread: any; reads /proc and blocks on the disk, for shells at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/program/program.h"

namespace mobula::internal {

// Paths of the executable (first) and of the libraries outside /lib and /usr/lib that `pid` has
// mapped (0: this process).
Result<std::vector<std::string>> program_paths(std::int64_t pid);

// Directory of the transport plugins that were installed with this library or program: lib/mobula.
// Empty if it does not exist.
std::string plugins_beside(const std::string& file);

// Incremental SHA-256, of which end() returns the first 128 bits.
// Thread: owner.
class RunningHash {
 public:
  RunningHash();
  RunningHash(RunningHash&&) noexcept;
  RunningHash& operator=(RunningHash&&) noexcept;
  ~RunningHash();
  void add(std::span<const std::byte> bytes);
  Hash128 end();  // called once, after the last add()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The first 128 bits of the SHA-256 of the file.
Result<Hash128> hash_file(const std::string& path);

// Files and id of a running program. Arguments, working directory, and source stay empty.
Result<ProgramRecord> describe_program(std::int64_t pid);

}  // namespace mobula::internal
