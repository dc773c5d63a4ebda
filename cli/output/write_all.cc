#include "cli/output/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace mobula::internal::cli {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    errno = 0;
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace mobula::internal::cli
