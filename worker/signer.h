// Signs tickets for processes of this node, with the key that the head delegated to this agent. The
// private key exists in memory only; the agent's own ticket proves the delegation.
// Thread: owner.
#pragma once

#include <string>

#include "base/model/jobs/principal.h"
#include "protocol/tickets/ticket.h"
#include "protocol/tickets/ticket_clock.h"

namespace mobula::internal::worker {

class Signer {
 public:
  // Generates new keys.
  explicit Signer(NodeId node) : node_(node), keys_(SigningKeys::generate()) {}

  const std::string& delegated_key() const { return keys_.public_key; }

  // Adopts the agent's own ticket, in which the head signed the delegated key.
  void use(std::string ticket, std::string head_signing_key);
  const std::string& ticket() const { return ticket_; }
  const std::string& head_signing_key() const { return head_signing_key_; }
  // The time against which tickets of peers are checked.
  std::int64_t now_ms() const;

  // A ticket for a process of this node, valid as long as the agent's own ticket.
  std::string sign(const Principal& principal, ProcessId process,
                   const std::string& curve_key) const;

 private:
  const NodeId node_;
  const SigningKeys keys_;
  std::string ticket_;
  std::string head_signing_key_;
  TicketClock clock_;
};

}  // namespace mobula::internal::worker
