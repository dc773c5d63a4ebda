// The exit codes of the `mobula` program, and which failure ends it with which. Values.
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

// Says why on stderr, on one line, and returns the code to end with.
int complain(const Failure& why);
int complain(const Failure& why, int code);
// Of what standard output has not taken, by errno: nothing is said where its reader has gone. `lost` is what is
// gone with it, if that matters.
int complain_of_output(const std::string& lost = {});
// Says something on stderr, on one line, that ends nothing.
void warn(const std::string& text);

}  // namespace mobula::internal::cli
