#include "transport/bus/connection_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "transport/bus/message_chunks.h"
#include "transport/net/address.h"

namespace mobula::internal {
namespace {

// Bytes that a CURVE server of ZMTP 3 sends before it has checked the key of the client: the
// greeting (64) and WELCOME (170), or an ERROR instead of READY (12). READY raises the sum above
// 260.
constexpr std::uint64_t sent_before_proof = 64 + 170 + 20;
// A check may find a connection above a limit because the bus has not read the message that
// authenticates it, or its other messages. libzmq passes several messages at once to the bus, so an
// interruption of its thread delays an honest message for longer.
constexpr int checks_before_close = 2;
constexpr int checks_before_close_unread = 4;
// TCP_ESTABLISHED of the kernel, whose header conflicts with <linux/tcp.h>.
constexpr std::uint8_t tcp_established = 1;

struct KernelCounts {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  bool established = false;  // neither side has closed the connection
};

// Returns nullopt for a unix socket, a closed descriptor, and kernels before 4.19.
std::optional<KernelCounts> counts_of(int fd) {
  tcp_info counts{};
  socklen_t size = sizeof(counts);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &counts, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(counts.tcpi_bytes_retrans)) {
    return std::nullopt;
  }
  return KernelCounts{counts.tcpi_bytes_received,
                      counts.tcpi_bytes_sent - counts.tcpi_bytes_retrans,
                      counts.tcpi_state == tcp_established};
}

std::string without_port(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

std::string total_reached(std::size_t connections) {
  return fmt::format(
      "{} connections exist, which is the limit; raise the descriptor limit of this "
      "process (ulimit -n, or LimitNOFILE of its unit)",
      connections);
}

}  // namespace

ConnectionLimits within_descriptors(ConnectionLimits limits, std::size_t descriptors) {
  constexpr std::size_t reserve = 64;
  const std::size_t usable = descriptors - descriptors / 4;
  if (limits.max_connections == 0) limits.max_connections = std::max(2 * reserve, usable) - reserve;
  limits.max_unproven = std::min(limits.max_unproven, limits.max_connections / 2);
  limits.max_unproven_per_source =
      std::min(limits.max_unproven_per_source, std::max<std::size_t>(1, limits.max_unproven / 2));
  return limits;
}

// libzmq may close `fd` at any time, so the address is that of a copy.
void ConnectionGuard::opened(int fd, bool accepted, Time now) {
  erase(fd);
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  const auto peer = peer_address_of(copy ? copy.get() : fd);
  if (!peer && accepted && encrypted_) closed_early_[fd] = handshakes_;
  if (!peer || peer->family() == AF_UNIX) return;  // already closed, or a process of this user
  Connection made;
  made.peer = peer->text();
  made.source = without_port(made.peer);
  made.proven = !accepted;
  made.silent = accepted;
  made.opened_as = next_++;
  made.opened_at = now;
  if (accepted) make_space(made.source);
  if (accepted && encrypted_) made.copy = std::move(copy);
  const bool fits = !accepted || fits_in_total();
  if (accepted) {
    unproven_.emplace(made.opened_as, fd);
    unproven_of_source_[made.source].emplace(made.opened_as, fd);
    ++silent_;
  }
  connections_.emplace(fd, std::move(made));
  if (!fits) close(fd, total_reached(connections_.size() - 1));
}

bool ConnectionGuard::fits_in_total() {
  if (connections_.size() < limits_.max_connections) return true;
  if (unproven_.empty()) return false;
  close(unproven_.begin()->second, total_reached(connections_.size()));
  return true;
}

void ConnectionGuard::erase(Connections::iterator at) {
  prove(at->second);
  if (at->second.silent) --silent_;
  connections_.erase(at);
}

void ConnectionGuard::erase(int fd) {
  const auto at = connections_.find(fd);
  if (at != connections_.end()) erase(at);
}

void ConnectionGuard::report_violation(const std::string& source, bool in_handshake,
                                       const std::string& received) {
  if (!hooks_.closed) return;
  hooks_.closed(source, fmt::format("an invalid {} or a frame above {} bytes arrived before a "
                                    "key was proven{}",
                                    in_handshake ? "handshake" : "message",
                                    ChunkLimits::frame_bytes, received));
}

// A connection that the peer closes during the handshake has the reason peer_closed. After the
// handshake, the reason is always unknown.
void ConnectionGuard::ended(int fd, End end) {
  const bool by_libzmq = end == End::unknown || end == End::protocol_error;
  const auto early = closed_early_.find(fd);
  if (early != closed_early_.end()) {
    const bool in_handshake = early->second == handshakes_;
    closed_early_.erase(early);
    if (by_libzmq && (in_handshake || end == End::protocol_error))
      report_violation("an unknown address", true, "");
    return;
  }
  const auto at = connections_.find(fd);
  if (at == connections_.end()) return;
  const bool proven = at->second.proven;
  const std::string source = at->second.source;
  const auto counts = at->second.copy ? counts_of(at->second.copy.get()) : std::nullopt;
  erase(at);
  if (proven || !counts || !by_libzmq) return;
  const bool in_handshake = counts->sent <= sent_before_proof;
  if (end == End::unknown && !in_handshake && !counts->established) return;  // by the peer
  report_violation(source, in_handshake, fmt::format("; {} bytes were received", counts->received));
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
  connection.checks_over = 0;
  connection.copy.reset();
  unproven_.erase(connection.opened_as);
  const auto of_source = unproven_of_source_.find(connection.source);
  of_source->second.erase(connection.opened_as);
  if (of_source->second.empty()) unproven_of_source_.erase(of_source);
}

// An honest peer authenticates within milliseconds, so the oldest connection is the suspicious one.
void ConnectionGuard::make_space(const std::string& source) {
  const auto of_source = unproven_of_source_.find(source);
  const std::size_t count = of_source == unproven_of_source_.end() ? 0 : of_source->second.size();
  if (count >= limits_.max_unproven_per_source) {
    close(of_source->second.begin()->second,
          fmt::format("{} connections from there have not proven a key", count));
  } else if (unproven_.size() >= limits_.max_unproven) {
    close(unproven_.begin()->second,
          fmt::format("{} connections have not proven a key", unproven_.size()));
  }
}

void ConnectionGuard::check(bool all_read, bool handshake_proves, Time now) {
  std::vector<std::pair<int, std::string>> beyond;
  for (auto& [fd, connection] : connections_) {
    if (auto why = beyond_limit(fd, connection, all_read, handshake_proves, now)) {
      beyond.emplace_back(fd, std::move(*why));
    }
  }
  for (const auto& [fd, why] : beyond) close(fd, why);
}

// Before the end of the handshake, no message of the bus can be under way, so the first check that
// finds too many bytes closes the connection.
std::optional<std::string> ConnectionGuard::beyond_limit(int fd, Connection& connection,
                                                         bool all_read, bool handshake_proves,
                                                         Time now) {
  const auto counts = counts_of(fd);
  if (!counts) return std::nullopt;
  const bool in_handshake = counts->sent <= sent_before_proof;
  if (!encrypted_ || (handshake_proves && !in_handshake)) prove(connection);
  int last_check = checks_before_close;
  auto why = beyond_bytes(fd, connection, counts->received, all_read);
  if (!why && !connection.proven && (in_handshake || all_read)) {
    why = beyond_handshake(fd, counts->received);
    if (why) last_check = in_handshake ? 1 : checks_before_close_unread;
  }
  if (!why && !connection.proven && now - connection.opened_at >= limits_.handshake_timeout) {
    why = fmt::format("no key was proven within {} ms; {} bytes were received",
                      limits_.handshake_timeout / 1ms, counts->received);
  }
  connection.checks_over = why ? connection.checks_over + 1 : 0;
  return connection.checks_over >= last_check ? why : std::nullopt;
}

// A peer that knows the key of a listener may send metadata in its handshake, and libzmq keeps
// them, in 16 times their size, until the connection ends. They remain the difference of the bytes
// that libzmq has taken from the kernel and of those that the bus has read.
std::optional<std::string> ConnectionGuard::beyond_handshake(int fd, std::uint64_t received) const {
  int in_kernel = 0;
  if (::ioctl(fd, SIOCINQ, &in_kernel) != 0 || in_kernel < 0) in_kernel = 0;
  const std::uint64_t read =
      hooks_.read_bytes(fd).value_or(0) + static_cast<std::uint64_t>(in_kernel);
  const std::uint64_t held = received > read ? received - read : 0;
  if (held <= limits_.max_handshake_bytes) return std::nullopt;
  return fmt::format("{} bytes of a handshake arrived before a key was proven; the limit is {}",
                     held, limits_.max_handshake_bytes);
}

std::optional<std::string> ConnectionGuard::beyond_bytes(int fd, Connection& connection,
                                                         std::uint64_t received, bool all_read) {
  std::uint64_t held = received;
  std::size_t limit = limits_.max_unproven_bytes;
  if (connection.proven) {
    limit = limits_.max_unread_bytes;
    const auto read = hooks_.read_bytes(fd);
    if (read && all_read) {
      connection.received_before = received;
      connection.read_before = *read;
    }
    const std::uint64_t taken =
        connection.received_before + read.value_or(0) - connection.read_before;
    held = received > taken ? received - taken : 0;
  }
  if (held <= limit) return std::nullopt;
  return fmt::format("{} bytes {}; the limit is {}", held,
                     connection.proven ? "wait to be read from one connection"
                                       : "arrived before a key was "
                                         "proven",
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
