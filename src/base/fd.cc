#include "base/fd.h"

#include <unistd.h>

namespace mobula::internal {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace mobula::internal
