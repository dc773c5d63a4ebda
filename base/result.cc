#include "base/result.h"

#include <cerrno>
#include <system_error>

namespace mobula::internal {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::already_exists: return "already_exists";
    case ErrorCode::resource_exhausted: return "resource_exhausted";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::permission_denied: return "permission_denied";
  }
  return "unknown";
}

namespace {

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ESRCH: return ErrorCode::not_found;
    case EEXIST: return ErrorCode::already_exists;
    case EACCES:
    case EPERM: return ErrorCode::permission_denied;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN: return ErrorCode::resource_exhausted;
    case ETIMEDOUT: return ErrorCode::timed_out;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case EADDRINUSE: return ErrorCode::unavailable;
    default: return ErrorCode::invalid_argument;
  }
}

}  // namespace

Failure errno_failure(std::string what, int error_number) {
  return {code_of(error_number),
          std::move(what) + ": " + std::generic_category().message(error_number)};
}

}  // namespace mobula::internal
