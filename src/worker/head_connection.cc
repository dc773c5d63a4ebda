#include "worker/head_connection.h"

#include "base/log.h"
#include "protocol/messages.h"

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
    if (message) return at->callbacks_.said(std::move(*message));
    ++at->unreadable_;
    log_warn("a message of the head was dropped: {}", message.error().text);
  };
  bus.on_connected = [at = self.get()](PeerHandle) {
    at->connected_ = true;
    at->callbacks_.link(true);
  };
  bus.on_gone = [at = self.get()](PeerHandle, const Failure& why) { at->gone(why); };
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
    callbacks_.refused("the head at " + address_ + " refuses this machine's key: " + why.text);
  }
  if (auto again = connect(); !again) log_error("no way to the head: {}", again.error().text);
}

void HeadConnection::send(const AgentToHead& message) {
  if (!connected_) return;
  const auto sent = bus_->send(head_, encode(message));
  if (!sent) log_debug("a message to the head was not sent: {}", sent.error().text);
}

}  // namespace mobula::internal::worker
