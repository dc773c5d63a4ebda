#include "client/api/completion/interruption.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <mobula/interrupt.h>

namespace mobula {
namespace {

// The only state that a signal handler touches. Process-wide, because signals belong to processes.
std::atomic<std::uint64_t> interruptions{0};
std::atomic<int> event{-1};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);

// Count of interruptions when this thread began to receive them, or received the latest one.
std::uint64_t& received() {
  thread_local std::uint64_t count = interruptions.load();
  return count;
}

}  // namespace

void interrupt_waits() noexcept {
  const int before = errno;
  interruptions.fetch_add(1);
  const int to = event.load();
  const std::uint64_t one = 1;
  if (to >= 0) (void)!::write(to, &one, sizeof one);
  errno = before;
}

bool take_interrupt() noexcept {
  const std::uint64_t now = interruptions.load();
  return std::exchange(received(), now) != now;
}

namespace detail {

bool interrupted() { return received() != interruptions.load(); }

ErrorRecord interrupted_error(std::string_view operation) {
  (void)take_interrupt();
  ErrorRecord error;
  error.kind = ErrorKind::interrupted;
  error.message = std::string(operation) +
                  ": interrupted by interrupt_waits(); the call can be repeated, and running calls "
                  "continue";
  return error;
}

int interrupt_event() {
  int current = event.load();
  if (current >= 0) return current;
  const int opened = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (opened < 0) return -1;
  if (event.compare_exchange_strong(current, opened)) return opened;
  ::close(opened);
  return current;
}

bool clear_interrupt_event() {
  std::uint64_t count = 0;
  return ::read(event.load(), &count, sizeof count) == sizeof count;
}

}  // namespace detail

}  // namespace mobula
