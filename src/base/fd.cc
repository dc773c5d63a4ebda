#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace mobula::internal {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Fd> copy_of(const Fd& fd) {
  Fd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return errno_failure("copy a descriptor", errno);
  return copy;
}

}  // namespace mobula::internal
