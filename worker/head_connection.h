// The agent's connection to its head: one bus connection with the key pair of this machine,
// reopened after each break. Carries single messages; resending is the core's work.
// Thread: the agent's loop. Errors: reported through the callbacks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "protocol/messages/agent_control.h"
#include "protocol/program/cluster_files.h"
#include "transport/bus/bus.h"

namespace mobula::internal::worker {

class HeadConnection {
 public:
  struct Callbacks {
    std::function<void(bool connected)> link;
    std::function<void(HeadToAgent)> on_message;
    // The head is unreachable; the failure states the remedy. permission_denied: the head does not
    // admit this machine's key. unavailable: no process listens at the address, or the listener
    // completes no handshake. Attempts continue.
    std::function<void(const Failure& why)> no_way;
    // No reply arrives. This proves no failure, and attempts continue.
    std::function<void(const Failure& why)> silent{};
  };

  // Begins to connect. Empty `keys`: for a head on this machine without keys.
  static Result<std::unique_ptr<HeadConnection>> open(EventLoop& loop, std::string address,
                                                      const std::optional<KeyFile>& keys,
                                                      Callbacks callbacks);

  // Drops the message while no connection exists.
  void send(const AgentToHead& message);
  // Closes the connection after sending queued messages for at most `linger`.
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
