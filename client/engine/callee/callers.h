// Authenticated callers of this executor, by connection. The first message of a connection
// authenticates its process with a ticket; earlier messages are ignored. Callers admitted under a
// key that is revoked later are dropped, with their open connections.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "protocol/tickets/revocation_list.h"
#include "transport/bus/bus.h"

namespace mobula::internal::client {

class Callers {
 public:
  // Only processes of `job` may call tasks. All jobs may call actors, whose handles they share.
  Callers(std::string head_signing_key, JobId job, bool is_actor)
      : head_signing_key_(std::move(head_signing_key)), job_(job), is_actor_(is_actor) {}

  // Null: the connection is not authenticated.
  const ProcessId* find(PeerHandle connection) const;
  // Handles the first message of a connection. Replaces an earlier connection of the process.
  // Errors: permission_denied (invalid ticket, with the reason), invalid_argument (not a hello
  // message).
  Result<ProcessId> greet(PeerHandle connection, const PeerOrigin& origin,
                          std::span<const std::byte> bytes, std::int64_t wall_ms);
  // The connection for replies to the process.
  std::optional<PeerHandle> connection_of(ProcessId process) const;

  // Incarnation of the agent with which the caller ends; empty for a driver, which outlives it.
  ProcessId agent_of(PeerHandle connection) const;

  void gone(PeerHandle connection);
  // Drops the connection of the process and, if it is an agent, those of its executors.
  void dead(ProcessId process);
  // Drops and returns the callers that these keys had admitted.
  std::vector<ProcessId> cut(const std::vector<std::string>& revoked_keys);

 private:
  struct Caller {
    ProcessId process;
    std::string admitted_as;  // key of the agent that admitted it
    ProcessId agent;          // see agent_of()
  };
  void drop(ProcessId process);

  const std::string head_signing_key_;
  const JobId job_;
  const bool is_actor_;
  RevocationList void_keys_;
  std::map<PeerHandle, Caller> callers_;
  std::map<ProcessId, PeerHandle> connections_;
};

}  // namespace mobula::internal::client
