// The exit codes of the `mobula` program, and their mapping from failures.
// Thread: main.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::cli {

enum ExitCode : int {
  exit_done = 0,
  exit_failed = 1,
  exit_wrong_use = 2,
  exit_unreachable = 3,
  exit_refused = 4,
  exit_timed_out = 5,
  exit_never_scheduled = 6,
  exit_not_found = 7,
  exit_interrupted = 130,
};

inline int exit_code_of(const Failure& why) {
  switch (why.code) {
    case ErrorCode::invalid_argument: return exit_wrong_use;
    case ErrorCode::unavailable: return exit_unreachable;
    case ErrorCode::permission_denied: return exit_refused;
    case ErrorCode::timed_out: return exit_timed_out;
    case ErrorCode::not_found: return exit_not_found;
    case ErrorCode::cancelled: return exit_interrupted;
    case ErrorCode::already_exists:
    case ErrorCode::resource_exhausted:
    case ErrorCode::corrupt: return exit_failed;
  }
  return exit_failed;
}

// Prints the failure on stderr, on one line, and returns the exit code.
int complain(const Failure& why);
int complain(const Failure& why, int code);
// Reports a failed write to standard output, by errno. Prints nothing if the reader has closed it,
// unless `lost` names data that is lost with it.
int complain_of_output(const std::string& lost = {});
// Prints a warning on stderr, on one line.
void warn(const std::string& text);

}  // namespace mobula::internal::cli
