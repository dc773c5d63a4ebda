#include "base/sqlite_errors.h"

#include <sqlite3.h>
#include <sys/statvfs.h>

#include <cstdint>

namespace mobula::internal {
namespace {

bool is_disk_full(const std::string& path) {
  constexpr std::uint64_t least_free_bytes = 128 << 10;
  struct statvfs state {};
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  return ::statvfs(directory.empty() ? "." : directory.c_str(), &state) == 0 &&
         std::uint64_t{state.f_bavail} * state.f_frsize < least_free_bytes;
}

}  // namespace

ErrorCode sqlite_error_code(int code) {
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return ErrorCode::corrupt;
    case SQLITE_FULL: return ErrorCode::resource_exhausted;
    case SQLITE_READONLY:
    case SQLITE_PERM: return ErrorCode::permission_denied;
    default: return ErrorCode::unavailable;
  }
}

int sqlite_code_with_full_disk(int code, const std::string& path) {
  const int kind = code & 0xff;
  const bool may_be_full = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN;
  return may_be_full && is_disk_full(path) ? SQLITE_FULL : code;
}

}  // namespace mobula::internal
