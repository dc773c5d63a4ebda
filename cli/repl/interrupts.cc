#include "cli/repl/interrupts.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace mobula::internal::cli::repl {
namespace {

// The only state that the handler touches.
std::atomic<bool> interrupted{false};
std::atomic<bool> resized{false};
std::atomic<int> waking{-1};

void note(int number) {
  const int before = errno;
  (number == SIGWINCH ? resized : interrupted).store(true);
  const std::uint64_t one = 1;
  (void)!::write(waking.load(), &one, sizeof one);
  errno = before;
}

}  // namespace

Result<Interrupts> Interrupts::take() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return errno_failure("create an event descriptor", errno);
  waking.store(fd.get());
  struct sigaction action {};
  action.sa_handler = note;  // without SA_RESTART: interrupts waits
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGWINCH, &action, nullptr);
  return Interrupts(std::move(fd));
}

Interrupts::~Interrupts() {
  if (!fd_) return;
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGWINCH, SIG_DFL);
  waking.store(-1);
}

bool Interrupts::raised() const { return interrupted.load(); }

bool Interrupts::clear() {
  std::uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof count);
  interrupted.store(false);
  return resized.exchange(false);
}

}  // namespace mobula::internal::cli::repl
