// The bus of this agent for other agents. Frames leave over a connection that is opened with the
// first frame, and arrive over connections that peers opened. Each connection begins with a ticket
// that must name an agent and the key of the connection. Unauthenticated and unreadable input is
// counted and dropped.
// Thread: the agent's loop. Not: resending, which is the core's work.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "protocol/messages/agent_control.h"
#include "protocol/messages/peer_control.h"
#include "transport/bus/bus.h"
#include "worker/signer.h"

namespace mobula::internal::worker {

class PeerConnections {
 public:
  struct Callbacks {
    std::function<void(PeerFrame)> on_message;
    std::function<void(ProcessId incarnation, bool connected)> link;
  };

  // `self` and `signer` belong to this incarnation; both outlive this object.
  static Result<std::unique_ptr<PeerConnections>> open(EventLoop& loop, ProcessId self,
                                                       const Signer& signer, Callbacks callbacks);

  // Maps HOST:0 to HOST:PORT.
  Result<std::string> bind(const std::string& address) { return bus_->bind(address); }
  const std::string& public_key() const { return keys_.public_key; }

  void send(const AgentAddress& to, const PeerFrame& frame);
  // Rejects agents that were admitted with these keys (RevocationList).
  void cut(const std::vector<std::string>& keys);

 private:
  PeerConnections(ProcessId self, const Signer& signer, CurveKeys keys, Callbacks callbacks)
      : self_(self), signer_(signer), keys_(std::move(keys)), callbacks_(std::move(callbacks)) {}
  void on_frame(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void greeted(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void log_closed(const std::string& source, const std::string& why);
  void forget(PeerHandle peer);

  const ProcessId self_;
  const Signer& signer_;
  const CurveKeys keys_;
  const Callbacks callbacks_;
  AllowTable allow_{UnknownKeys::unproven};
  std::unique_ptr<Bus> bus_;
  std::map<ProcessId, PeerHandle> outgoing_;  // by incarnation
  std::map<PeerHandle, ProcessId> outgoing_of_;
  struct Proven {
    ProcessId incarnation;
    std::string admitted_as;
  };
  std::map<PeerHandle, Proven> proven_;  // authenticated accepted connections
  RevocationList void_keys_;
  std::optional<Time> closed_logged_at_;
  std::uint64_t closed_unlogged_ = 0;
};

}  // namespace mobula::internal::worker
