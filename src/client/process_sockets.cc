#include "client/process_sockets.h"

namespace mobula::internal::client {

Result<std::unique_ptr<ProcessSockets>> ProcessSockets::open(const SocketOptions& options) {
  std::unique_ptr<ProcessSockets> self(new ProcessSockets);
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  self->thread_ = std::move(*thread);
  Result<void> opened;
  const auto ran = self->thread_->run([&] { opened = self->open_bus(options); });
  if (!ran.ok()) return ran.error();
  if (!opened.ok()) return opened.error();
  return self;
}

ProcessSockets::~ProcessSockets() {
  if (thread_) (void)thread_->run([this] { close(); });
}

Result<void> ProcessSockets::open_bus(const SocketOptions& options) {
  BusOptions bus_options;
  bus_options.keys = options.keys;
  bus_options.allow = &allow_;
  BusCallbacks callbacks;
  callbacks.on_message = [this](PeerHandle from, const PeerOrigin& origin,
                                std::span<const std::byte> bytes) {
    if (callbacks_.on_message) callbacks_.on_message(from, origin, bytes);
  };
  callbacks.on_gone = [this](PeerHandle peer, const Failure& why) {
    if (callbacks_.on_gone) callbacks_.on_gone(peer, why);
  };
  callbacks.on_unreached = [this](PeerHandle peer, ProbeOutcome seen) {
    if (callbacks_.on_unreached) callbacks_.on_unreached(peer, seen);
  };
  auto bus = Bus::create(loop(), std::move(bus_options), std::move(callbacks));
  if (!bus) return bus.error();
  bus_ = std::move(*bus);
  endpoint_.public_key = options.keys.public_key;
  if (!options.local_bind.empty()) {
    auto bound = bus_->bind(options.local_bind);
    if (!bound) return bound.error();
    endpoint_.local = *bound;
  }
  if (!options.host_bind.empty()) {
    auto bound = bus_->bind(options.host_bind);
    if (!bound) return bound.error();
    endpoint_.address = *bound;
  }
  return {};
}

}  // namespace mobula::internal::client
