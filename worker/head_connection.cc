#include "worker/head_connection.h"

#include <fmt/format.h>

#include "base/logging/log.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::worker {

Result<std::unique_ptr<HeadConnection>> HeadConnection::open(EventLoop& loop, std::string address,
                                                             const std::optional<KeyFile>& keys,
                                                             Callbacks callbacks) {
  std::unique_ptr<HeadConnection> self(new HeadConnection(
      std::move(address), keys ? keys->head_curve_key : std::string(), std::move(callbacks)));
  BusOptions options;
  if (keys) options.keys = CurveKeys{keys->public_key, keys->secret_key};
  options.allow = &self->nobody_;
  BusCallbacks bus;
  bus.on_message = [at = self.get()](PeerHandle from, const PeerOrigin&,
                                     std::span<const std::byte> bytes) {
    if (from != at->head_) return;
    auto message = decode<HeadToAgent>(bytes);
    if (message) return at->callbacks_.on_message(std::move(*message));
    ++at->unreadable_;
    log_warn("a message of the head was dropped: {}", message.error().text);
  };
  bus.on_connected = [at = self.get()](PeerHandle) {
    at->connected_ = true;
    at->callbacks_.link(true);
  };
  bus.on_gone = [at = self.get()](PeerHandle, const Failure& why) { at->gone(why); };
  bus.on_unreached = [at = self.get()](PeerHandle, ProbeOutcome seen) {
    if (seen != ProbeOutcome::refused) {
      if (!at->callbacks_.silent) return;
      return at->callbacks_.silent(failure(
          ErrorCode::unavailable, fmt::format("no process replies at {}; check the address, "
                                              "the network, and that no firewall is in between",
                                              at->address_)));
    }
    at->callbacks_.no_way(
        failure(ErrorCode::unavailable,
                fmt::format("no process listens at {}, the address of the head; check the address, "
                            "and that the head runs: 'mobula status' on its machine",
                            at->address_)));
  };
  auto opened = Bus::create(loop, std::move(options), std::move(bus));
  if (!opened) return opened.error();
  self->bus_ = std::move(*opened);
  if (auto connected = self->connect(); !connected) return connected.error();
  return self;
}

Result<void> HeadConnection::connect() {
  auto head = bus_->connect(address_, server_key_);
  if (!head) return head.error();
  head_ = *head;
  return {};
}

void HeadConnection::gone(const Failure& why) {
  const bool was_connected = std::exchange(connected_, false);
  if (was_connected) callbacks_.link(false);
  if (why.code == ErrorCode::permission_denied) {
    callbacks_.no_way(failure(
        ErrorCode::permission_denied,
        fmt::format("the head at {} refuses this machine's key: {}; name the key file of that "
                    "cluster with MOBULA_KEY_FILE or --key",
                    address_, why.text)));
  } else if (!was_connected) {
    callbacks_.no_way(no_handshake());
  }
  if (auto again = connect(); !again) log_error("no way to the head: {}", again.error().text);
}

// A process listens there, but completes no handshake.
Failure HeadConnection::no_handshake() const {
  const char* why =
      server_key_.empty()
          ? "the head there may want a key: name the key file of its cluster with MOBULA_KEY_FILE "
            "or --key"
          : "the key file is of another cluster, or what listens there is no head or hangs; check "
            "the address, and "
            "MOBULA_KEY_FILE or --key";
  return failure(
      ErrorCode::unavailable,
      fmt::format("a process listens at {}, but there was no handshake: {}", address_, why));
}

void HeadConnection::send(const AgentToHead& message) {
  if (!connected_) return;
  const auto sent = bus_->send(head_, encode(message));
  if (!sent) log_debug("a message to the head was not sent: {}", sent.error().text);
}

}  // namespace mobula::internal::worker
