// Signed statements of who a process is (runtime rules: identity). The head signs for agents; an
// agent signs, with a key the head delegated to it, only for processes of its own node. Ed25519
// (RFC 8032) through libsodium. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/result.h"
#include "model/principal.h"
#include "protocol/void_keys.h"

namespace mobula::internal {

struct SigningKeys {
  std::string public_key;  // 32 bytes
  std::string secret_key;  // 64 bytes
  static SigningKeys generate();
};

struct Ticket {
  Principal principal;
  ProcessId process;
  NodeId node;
  std::string curve_key;  // of the process's bus, Z85
  std::string
      delegated_key;  // agents: the key whose tickets for this node are honoured; else empty
  std::int64_t expires_ms = 0;  // wall clock, UTC
  // Agents: under which name the head's table of keys let this one in ("token:ID", "agent:CLUSTER"). Of
  // what check_ticket() returns for a process: that of the agent that vouches for it.
  std::string admitted_as{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("principal", &Ticket::principal), field("process", &Ticket::process),
                 field("node", &Ticket::node), field("curve_key", &Ticket::curve_key),
                 field("delegated_key", &Ticket::delegated_key),
                 field("expires_ms", &Ticket::expires_ms),
                 field("admitted_as", &Ticket::admitted_as));
  }
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

// A ticket, its signature and, if an agent signed, the agent's own ticket signed by the head.
struct SignedTicket {
  std::string ticket;     // encoded Ticket
  std::string signature;  // 64 bytes
  std::string signer;     // encoded SignedTicket of the agent; empty: the head signed
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ticket", &SignedTicket::ticket),
                 field("signature", &SignedTicket::signature),
                 field("signer", &SignedTicket::signer));
  }
  friend bool operator==(const SignedTicket&, const SignedTicket&) = default;
};

// The encoded SignedTicket for `ticket`. `signer` is the signing agent's own ticket, or empty.
std::string sign_ticket(const Ticket& ticket, const SigningKeys& keys,
                        const std::string& signer = {});

// Checks signature, chain, expiry (5 minutes of skew allowed) and, for tickets signed by an agent,
// that they are for the agent's own node and for a driver or executor, and that the agent's key is none
// of `void_keys`. `permission_denied` says what is wrong and, for expiry, shows both clocks.
Result<Ticket> check_ticket(const std::string& signed_ticket, const std::string& head_public_key,
                            std::int64_t now_ms, const VoidKeys& void_keys);

// When the agent's ticket ends, in ms since 1970: `signed_ticket` itself, or the one of its signer.
// Unchecked; nothing if it cannot be read.
std::optional<std::int64_t> end_of_agent_ticket(const std::string& signed_ticket);

// The ticket of a process with its agent's own replaced by a later one of that agent. Unchanged where
// it is not signed by an agent.
std::string with_signer(const std::string& signed_ticket, const std::string& signer);

}  // namespace mobula::internal
