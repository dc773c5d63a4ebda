#include "client/engine/caller/interruption_watch.h"

#include <cerrno>
#include <utility>

#include "client/api/completion/interruption.h"

namespace mobula::internal::client {

Result<Watch> watch_interruptions(EventLoop& loop, std::function<void()> wake) {
  const int event = detail::interrupt_event();
  if (event < 0) return errno_failure("open an event descriptor for interrupt_waits", errno);
  return loop.watch(event, Interest::read, [wake = std::move(wake)](Readiness) {
    (void)detail::clear_interrupt_event();
    wake();
  });
}

}  // namespace mobula::internal::client
