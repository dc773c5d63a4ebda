#include "worker/process/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mobula::internal::worker {

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_failure("make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace mobula::internal::worker
