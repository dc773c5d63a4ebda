// Who calls this executor over which connection, and by whose word. A connection's first message proves
// its process by a ticket; what comes before is not heard. Whom a key has vouched for that lets nobody in
// any more is cut off, also over connections that are there. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "protocol/void_keys.h"
#include "transport/bus.h"

namespace mobula::internal::executor {

class Callers {
 public:
  // Only processes of `job` call, unless the executor is an actor that has a name.
  Callers(std::string head_signing_key, JobId job, bool named)
      : head_signing_key_(std::move(head_signing_key)), job_(job), named_(named) {}

  // Null: it has not shown who it is.
  const ProcessId* find(PeerHandle connection) const;
  // The first message of a connection. permission_denied for a ticket that does not hold, with what is
  // wrong; invalid_argument for what is no greeting. The process's earlier connection counts no more.
  Result<ProcessId> greet(PeerHandle connection, const PeerOrigin& origin, std::span<const std::byte> bytes,
                          std::int64_t wall_ms);
  // Where answers for it go.
  std::optional<PeerHandle> connection_of(ProcessId process) const;

  void gone(PeerHandle connection);
  void dead(ProcessId process);
  // Returns whom they had vouched for.
  std::vector<ProcessId> cut(const std::vector<std::string>& void_keys);

 private:
  struct Caller {
    ProcessId process;
    std::string admitted_as;  // the key of the agent that vouches for it
  };
  const std::string head_signing_key_;
  const JobId job_;
  const bool named_;
  VoidKeys void_keys_;
  std::map<PeerHandle, Caller> callers_;
  std::map<ProcessId, PeerHandle> connections_;
};

}  // namespace mobula::internal::executor
