// What this agent vouches with: the key the head has delegated to it, in memory only, and the
// ticket by which others know that. Signs for processes of its own node. One thread.
#pragma once

#include <string>

#include "model/principal.h"
#include "protocol/ticket.h"
#include "protocol/ticket_clock.h"

namespace mobula::internal::worker {

class Signer {
 public:
  // With fresh keys.
  explicit Signer(NodeId node) : node_(node), keys_(SigningKeys::generate()) {}

  const std::string& delegated_key() const { return keys_.public_key; }

  // From now on this is the agent's own ticket, signed by the head with that key.
  void use(std::string ticket, std::string head_signing_key);
  const std::string& ticket() const { return ticket_; }
  const std::string& head_signing_key() const { return head_signing_key_; }
  // The time by which tickets of others are judged.
  std::int64_t now_ms() const;

  // A ticket for a process of this node; in force for as long as this agent's own is.
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
