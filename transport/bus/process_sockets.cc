#include "transport/bus/process_sockets.h"

#include "base/logging/stderr_queue.h"

#include <cstdio>

namespace mobula::internal {
namespace {

// Backoff if descriptors or memory are exhausted.
constexpr Duration pause_after_failure = 100ms;

}  // namespace

Result<std::unique_ptr<ProcessSockets>> ProcessSockets::open(const SocketOptions& options) {
  std::unique_ptr<ProcessSockets> self(new ProcessSockets(options));
  if (auto listening = self->listen(options.local_bind, self->endpoint_.local); !listening) {
    return listening.error();
  }
  const std::string host = options.host_bind;
  if (auto listening = self->listen(host, self->endpoint_.address); !listening)
    return listening.error();
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  self->thread_ = std::move(*thread);
  auto posted = self->loop().post([at = self.get()] {
    at->retry_ = std::make_unique<Timer>(at->loop(), [at] { at->watch_listeners(); });
    at->watch_listeners();
  });
  if (!posted) return posted.error();
  return self;
}

ProcessSockets::~ProcessSockets() {
  if (thread_) (void)thread_->run([this] { close(); });
}

Result<void> ProcessSockets::listen(const std::string& where, std::string& address) {
  if (where.empty()) return {};
  auto listening = listen_early(where);
  if (!listening) return listening.error();
  address = listening->address;
  listeners_.push_back(std::move(*listening));
  return {};
}

void ProcessSockets::watch_listeners() {
  for (const ListeningSocket& listener : listeners_) {
    auto watch = loop().watch(listener.socket.get(), Interest::read,
                              [this](Readiness) { somebody_connects(); });
    if (!watch) return take_up_later(watch.error());
    watches_.push_back(std::move(*watch));
  }
}

void ProcessSockets::somebody_connects() {
  if (const auto made = bus(); !made) take_up_later(made.error());
}

void ProcessSockets::take_up_later(const Failure& why) {
  if (!std::exchange(failure_reported_, true)) {
    print_stderr("mobula: other processes cannot connect yet: {}", why.text);
  }
  watches_.clear();
  retry_->arm(monotonic_now() + pause_after_failure);
}

Result<Bus*> ProcessSockets::bus() {
  if (bus_) return bus_.get();
  if (closed_) return failure(ErrorCode::unavailable, "the connections of this process are closed");
  BusOptions options;
  options.keys = keys_;
  options.allow = &allow_;
  options.handshake_timeout = handshake_timeout_;
  BusCallbacks callbacks;
  callbacks.on_message = [this](PeerHandle from, const PeerOrigin& origin,
                                std::span<const std::byte> bytes) {
    if (callbacks_.on_message) callbacks_.on_message(from, origin, bytes);
  };
  callbacks.on_gone = [this](PeerHandle peer, const Failure& why) {
    if (callbacks_.on_gone) callbacks_.on_gone(peer, why);
  };
  callbacks.on_closed = [this](const std::string& source, const std::string& why) {
    if (callbacks_.on_closed) callbacks_.on_closed(source, why);
  };
  callbacks.on_unreached = [this](PeerHandle peer, ProbeOutcome seen) {
    if (callbacks_.on_unreached) callbacks_.on_unreached(peer, seen);
  };
  auto bus = Bus::create(loop(), std::move(options), std::move(callbacks));
  if (!bus) return bus.error();
  // libzmq closes the descriptors that it receives when the bus ends. It receives copies, so that
  // the listeners still exist for the next bus if this one cannot adopt all of them.
  for (const ListeningSocket& listener : listeners_) {
    auto copy = copy_of(listener.socket);
    if (!copy) return copy.error();
    if (auto adopted = (*bus)->adopt({std::move(*copy), listener.address}); !adopted)
      return adopted.error();
  }
  watches_.clear();
  listeners_.clear();
  bus_ = std::move(*bus);
  return bus_.get();
}

void ProcessSockets::close() {
  closed_ = true;
  watches_.clear();
  retry_.reset();
  listeners_.clear();
  bus_.reset();
}

}  // namespace mobula::internal
