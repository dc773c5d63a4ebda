// The exclusive right to write one experiment: a lock on a file that names the process and the
// host. The kernel releases the lock with the process, also after kill -9.
// Thread: owner. Errors: already_exists names the process and the host that hold the lock.
#pragma once

#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::tune {

class ExperimentLock {
 public:
  // Creates the file `path` if it is absent.
  static Result<ExperimentLock> take(const std::string& path, const std::string& experiment);
  // "process 4711 on host gpu7 since 2026-11-26T22:04:05Z" while a process holds the lock of the
  // file; empty otherwise.
  static std::string holder(const std::string& path);

 private:
  explicit ExperimentLock(Fd file) : file_(std::move(file)) {}

  Fd file_;
};

}  // namespace mobula::internal::tune
