// Signed statements of the identity of a process. The head signs for agents; an agent signs, with a
// key that the head delegated, only for processes of its node. Ed25519 (RFC 8032) through
// libsodium.
// Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "base/result.h"
#include "protocol/tickets/revocation_list.h"

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
  std::string curve_key;        // CURVE key of the process's bus, Z85
  std::string delegated_key;    // agents: key that may sign tickets for this node; else empty
  std::int64_t expires_ms = 0;  // wall clock, UTC
  // Agents: name under which the head's key table admitted this one ("token:ID", "agent:CLUSTER").
  // If check_ticket() returns a process's ticket, the name of the agent that vouches for it.
  std::string admitted_as{};
  MOBULA_FIELDS(principal, process, node, curve_key, delegated_key, expires_ms, admitted_as);
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

// A ticket, its signature and, if an agent signed, that agent's own ticket signed by the head.
struct SignedTicket {
  std::string ticket;     // encoded Ticket
  std::string signature;  // 64 bytes
  std::string signer;     // encoded SignedTicket of the agent; empty: the head signed
  MOBULA_FIELDS(ticket, signature, signer);
  friend bool operator==(const SignedTicket&, const SignedTicket&) = default;
};

// The encoded SignedTicket for `ticket`. `signer` is the ticket of the signing agent, or empty.
std::string sign_ticket(const Ticket& ticket, const SigningKeys& keys,
                        const std::string& signer = {});

// Checks signature, chain, and expiry (5 minutes of skew allowed). A ticket that an agent signed
// must be for a driver or executor on that agent's node, and `revoked_keys` must not contain the
// agent's key.
// Errors: `permission_denied` with the reason and, for expiry, both clocks.
Result<Ticket> check_ticket(const std::string& signed_ticket, const std::string& head_public_key,
                            std::int64_t now_ms, const RevocationList& revoked_keys);

// Expiry of the agent's ticket, in ms since 1970: of `signed_ticket`, or of its signer. Not
// verified; empty if unreadable.
std::optional<std::int64_t> end_of_agent_ticket(const std::string& signed_ticket);

// Incarnation of the agent that signed the ticket of a process; empty if none did. Not verified.
ProcessId signer_of(const std::string& signed_ticket);

// Replaces the agent's ticket in the ticket of a process by a later one of the same agent. Returns
// the ticket unchanged if no agent signed it.
std::string with_signer(const std::string& signed_ticket, const std::string& signer);

}  // namespace mobula::internal
