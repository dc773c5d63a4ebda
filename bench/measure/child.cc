#include "bench/measure/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace mobula::bench {

void refused(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

Child::Child(const std::function<void()>& body) : pid_(::fork()) {
  if (pid_ < 0) refused("fork");
  if (pid_ == 0) {
    body();
    ::_exit(0);
  }
}

Child::~Child() {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Child::end() const { ::kill(pid_, SIGKILL); }

}  // namespace mobula::bench
