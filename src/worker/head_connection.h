// The agent's way to its head: one connection over the bus with the key pair that the cluster gave
// this machine, made again whenever it breaks. Messages, not conversations: repeating is the core's
// work. For the loop's thread alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "protocol/agent_control.h"
#include "protocol/cluster_files.h"
#include "transport/bus.h"

namespace mobula::internal::worker {

class HeadConnection {
 public:
  struct Callbacks {
    std::function<void(bool connected)> link;
    std::function<void(HeadToAgent)> said;
    // There is no way to the head, and what to do: permission_denied where it does not admit this machine's key;
    // unavailable where nobody listens at its address, or who listens there shakes no hands. It is tried again
    // nevertheless.
    std::function<void(const Failure& why)> no_way;
    // Nothing answers there, which proves nothing: it is tried again.
    std::function<void(const Failure& why)> silent{};
  };

  // Begins to connect. `keys`: none is for a head on this machine that has none.
  static Result<std::unique_ptr<HeadConnection>> open(EventLoop& loop, std::string address,
                                                      const std::optional<KeyFile>& keys,
                                                      Callbacks callbacks);

  // Dropped while there is no connection.
  void send(const AgentToHead& message);
  // Ends it, after up to `linger` for what has been sent.
  void close(Duration linger) { bus_->close(linger); }
  std::uint64_t unreadable() const { return unreadable_; }

 private:
  HeadConnection(std::string address, std::string server_key, Callbacks callbacks)
      : address_(std::move(address)),
        server_key_(std::move(server_key)),
        callbacks_(std::move(callbacks)) {}
  Result<void> connect();
  void gone(const Failure& why);
  Failure no_handshake() const;

  const std::string address_;
  const std::string server_key_;
  const Callbacks callbacks_;
  AllowTable nobody_;
  std::unique_ptr<Bus> bus_;
  PeerHandle head_;
  bool connected_ = false;
  std::uint64_t unreadable_ = 0;
};

}  // namespace mobula::internal::worker
