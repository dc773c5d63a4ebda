#include "transport/connection_guard.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <vector>

#include "transport/address.h"

namespace mobula::internal {
namespace {

// Bytes that a CURVE server of ZMTP 3 sends before it has checked the key of the client: the
// greeting (64) and WELCOME (170), or an ERROR instead of READY (12). READY raises the sum above
// 260.
constexpr std::uint64_t sent_before_proof = 64 + 170 + 20;

struct KernelCounts {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};

// Returns nullopt for a unix socket, a closed descriptor, and kernels before 4.19.
std::optional<KernelCounts> counts_of(int fd) {
  tcp_info counts{};
  socklen_t size = sizeof(counts);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &counts, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(counts.tcpi_bytes_retrans)) {
    return std::nullopt;
  }
  return KernelCounts{counts.tcpi_bytes_received, counts.tcpi_bytes_sent - counts.tcpi_bytes_retrans};
}

std::string without_port(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

}  // namespace

void ConnectionGuard::opened(int fd, bool accepted) {
  ended(fd);
  const auto peer = peer_address_of(fd);
  if (!peer || peer->family() == AF_UNIX) return;  // already closed, or a process of this user
  Connection made;
  made.peer = peer->text();
  made.source = without_port(made.peer);
  made.proven = !accepted;
  made.silent = accepted;
  made.opened_as = next_++;
  if (!made.proven) {
    make_space(made.source);
    ++unproven_;
    ++silent_;
  }
  connections_.emplace(fd, std::move(made));
}

void ConnectionGuard::erase(Connections::iterator at) {
  if (!at->second.proven) --unproven_;
  if (at->second.silent) --silent_;
  connections_.erase(at);
}

void ConnectionGuard::ended(int fd) {
  const auto at = connections_.find(fd);
  if (at != connections_.end()) erase(at);
}

void ConnectionGuard::proven(int fd) {
  const auto at = connections_.find(fd);
  if (at == connections_.end()) return;
  prove(at->second);
  if (at->second.silent) --silent_;
  at->second.silent = false;
}

void ConnectionGuard::prove(Connection& connection) {
  if (connection.proven) return;
  connection.proven = true;
  connection.over_limit = false;
  --unproven_;
}

// An honest peer authenticates within milliseconds, so the oldest connection is the suspicious one.
void ConnectionGuard::make_space(const std::string& source) {
  std::size_t of_source = 0;
  const Connections::value_type* oldest = nullptr;
  const Connections::value_type* oldest_of_source = nullptr;
  for (const auto& each : connections_) {
    if (each.second.proven) continue;
    if (oldest == nullptr || each.second.opened_as < oldest->second.opened_as) oldest = &each;
    if (each.second.source != source) continue;
    ++of_source;
    if (oldest_of_source == nullptr || each.second.opened_as < oldest_of_source->second.opened_as) {
      oldest_of_source = &each;
    }
  }
  if (of_source >= limits_.max_unproven_per_source) {
    close(oldest_of_source->first, fmt::format("{} connections from there have not proven a key",
                                               of_source));
  } else if (unproven_ >= limits_.max_unproven) {
    close(oldest->first, fmt::format("{} connections have not proven a key", unproven_));
  }
}

void ConnectionGuard::check(bool all_read, bool handshake_proves) {
  std::vector<std::pair<int, std::string>> beyond;
  for (auto& [fd, connection] : connections_) {
    if (auto why = beyond_limit(fd, connection, all_read, handshake_proves)) {
      beyond.emplace_back(fd, std::move(*why));
    }
  }
  for (const auto& [fd, why] : beyond) close(fd, why);
}

// A connection is closed at the second check that finds it above its limit. At the first check, the
// bus may not have read the message that authenticates it, or its other messages.
std::optional<std::string> ConnectionGuard::beyond_limit(int fd, Connection& connection,
                                                         bool all_read, bool handshake_proves) {
  const auto counts = counts_of(fd);
  if (!counts) return std::nullopt;
  if (!encrypted_ || (handshake_proves && counts->sent > sent_before_proof)) prove(connection);
  std::uint64_t held = counts->received;
  std::size_t limit = limits_.max_unproven_bytes;
  if (connection.proven) {
    limit = limits_.max_unread_bytes;
    const auto read = hooks_.read_bytes(fd);
    if (read && all_read) {
      connection.received_before = counts->received;
      connection.read_before = *read;
    }
    const std::uint64_t taken = connection.received_before + read.value_or(0) - connection.read_before;
    held = counts->received > taken ? counts->received - taken : 0;
  }
  const bool closes = held > limit && connection.over_limit;
  connection.over_limit = held > limit;
  if (!closes) return std::nullopt;
  return fmt::format("{} bytes {}; the limit is {}", held,
                     connection.proven ? "wait to be read from one connection"
                                       : "came before a key was proven",
                     limit);
}

void ConnectionGuard::close(int fd, const std::string& why) {
  const auto at = connections_.find(fd);
  if (at == connections_.end()) return;
  // libzmq may have closed the descriptor, and another connection may have its number.
  const auto peer = peer_address_of(fd);
  const std::string source = at->second.source;
  if (peer && peer->text() == at->second.peer) ::shutdown(fd, SHUT_RDWR);
  erase(at);
  if (hooks_.closed) hooks_.closed(source, why);
}

}  // namespace mobula::internal
