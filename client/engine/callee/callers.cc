#include "client/engine/callee/callers.h"

#include "protocol/codec/messages.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal::client {
namespace {

constexpr std::size_t max_hello_bytes = 4096;

}  // namespace

const ProcessId* Callers::find(PeerHandle connection) const {
  const auto at = callers_.find(connection);
  return at == callers_.end() ? nullptr : &at->second.process;
}

std::optional<PeerHandle> Callers::connection_of(ProcessId process) const {
  const auto at = connections_.find(process);
  return at == connections_.end() ? std::nullopt : std::optional(at->second);
}

Result<ProcessId> Callers::greet(PeerHandle connection, const PeerOrigin& origin,
                                 std::span<const std::byte> bytes, std::int64_t wall_ms) {
  const auto denied = [](const char* why) { return failure(ErrorCode::permission_denied, why); };
  if (bytes.size() > max_hello_bytes)
    return failure(ErrorCode::invalid_argument, "the first message is too long");
  const auto hello = decode<PeerHello>(bytes);
  if (!hello) return failure(ErrorCode::invalid_argument, hello.error().text);
  if (!speaks_with(hello->version, hello->oldest))
    return denied("it speaks another version of the protocol");
  const auto ticket = check_ticket(hello->ticket, head_signing_key_, wall_ms, void_keys_);
  if (!ticket) return ticket.error();
  if (ticket->process != hello->process) return denied("its ticket is of another process");
  // Over a network the ticket must match the public key of the connection.
  if (!origin.local && ticket->curve_key != origin.public_key)
    return denied("its ticket is of another key");
  const Role role = ticket->principal.role;
  if (role != Role::driver && role != Role::executor) return denied("its role makes no calls");
  if (ticket->principal.job != job_ && !is_actor_) return denied("it is of another job");
  if (const auto known = connections_.find(hello->process); known != connections_.end())
    callers_.erase(known->second);
  callers_[connection] = {hello->process, ticket->admitted_as,
                          role == Role::executor ? signer_of(hello->ticket) : ProcessId()};
  connections_[hello->process] = connection;
  return hello->process;
}

void Callers::gone(PeerHandle connection) {
  const auto at = callers_.find(connection);
  if (at == callers_.end()) return;
  const auto known = connections_.find(at->second.process);
  if (known != connections_.end() && known->second == connection) connections_.erase(known);
  callers_.erase(at);
}

ProcessId Callers::agent_of(PeerHandle connection) const {
  const auto at = callers_.find(connection);
  return at == callers_.end() ? ProcessId() : at->second.agent;
}

void Callers::dead(ProcessId process) {
  std::vector<ProcessId> dead{process};
  for (const auto& [connection, caller] : callers_) {
    if (caller.agent == process) dead.push_back(caller.process);
  }
  for (const ProcessId each : dead) drop(each);
}

void Callers::drop(ProcessId process) {
  const auto at = connections_.find(process);
  if (at == connections_.end()) return;
  callers_.erase(at->second);
  connections_.erase(at);
}

std::vector<ProcessId> Callers::cut(const std::vector<std::string>& revoked_keys) {
  void_keys_.add(revoked_keys);
  std::vector<ProcessId> cut;
  for (const auto& [connection, caller] : callers_) {
    if (void_keys_.contains(caller.admitted_as)) cut.push_back(caller.process);
  }
  for (const ProcessId process : cut) drop(process);
  return cut;
}

}  // namespace mobula::internal::client
