#include "transport/net/port_probe.h"

#include <sys/socket.h>

#include <cerrno>

namespace mobula::internal {
namespace {

ProbeOutcome outcome_of(int error) {
  if (error == 0) return ProbeOutcome::open;
  // A unix socket without a listener refuses the connection; a listener with a full queue returns
  // EAGAIN.
  if (error == EAGAIN) return ProbeOutcome::open;
  return error == ECONNREFUSED || error == ENOENT ? ProbeOutcome::refused : ProbeOutcome::silent;
}

}  // namespace

PortProbe::PortProbe(EventLoop& loop, const SocketAddress& address, Duration limit,
                     std::function<void(ProbeOutcome)> done)
    : done_(std::move(done)),
      socket_(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      timer_(loop, [this] { finish(at_timer_); }) {
  Time when = monotonic_now();
  if (socket_) {
    const int rc = ::connect(socket_.get(), address.get(), address.size);
    if (rc != 0 && errno == EINPROGRESS) {
      auto watch = loop.watch(socket_.get(), Interest::write, [this](Readiness) {
        int error = 0;
        socklen_t size = sizeof(error);
        ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        finish(outcome_of(error));
      });
      if (watch) {
        watch_ = std::move(watch).value();
        when = when + limit;
      }
    } else {
      at_timer_ = outcome_of(rc == 0 ? 0 : errno);
    }
  }
  timer_.arm(when);
}

void PortProbe::finish(ProbeOutcome outcome) {
  watch_.reset();
  timer_.disarm();
  socket_.reset();
  const auto done = std::move(done_);
  done(outcome);
}

}  // namespace mobula::internal
