// Limits the connections of a bus: their number, the time and number of unauthenticated ones, and
// the bytes that libzmq holds for each of them. libzmq offers no call for these, and its own
// receive limit is unusable (decision 86). Therefore the guard reads the kernel's counters of a
// descriptor and shuts the descriptor down.
// Thread: owner (the bus). Units: bytes. Not: keys, heartbeats.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/fd.h"
#include "base/time.h"

namespace mobula::internal {

struct ConnectionLimits {
  std::size_t max_unproven_bytes = 64u << 10;  // received over one unauthenticated connection
  // Held in libzmq for one unauthenticated connection, unread messages included. An honest peer
  // sends at most 1 KiB before its first message.
  std::size_t max_handshake_bytes = 2u << 10;
  std::size_t max_unread_bytes = 64u << 20;  // unread bytes of one authenticated connection
  std::size_t max_unproven_per_source = 64;  // connections; an excess closes the oldest
  std::size_t max_unproven = 512;
  std::size_t max_connections = 0;  // proven ones included; 0: from the descriptor limit
  Duration handshake_timeout = 5s;  // for a key's proof; the bus sets its handshake_timeout
};

// The limits of a process that may open `descriptors` descriptors: a quarter of them, and 64 more,
// stay free of connections. libzmq polls a listener without a pause if accept() finds no
// descriptor.
ConnectionLimits within_descriptors(ConnectionLimits limits, std::size_t descriptors);

class ConnectionGuard {
 public:
  struct Hooks {
    // Payload bytes that the bus has read from the connection; nullopt if the bus does not know it.
    std::function<std::optional<std::uint64_t>(int fd)> read_bytes;
    // The guard shut down a connection from `source`, an address without a port.
    std::function<void(const std::string& source, const std::string& why)> closed;
  };

  ConnectionGuard(const ConnectionLimits& limits, bool encrypted, Hooks hooks)
      : limits_(limits), encrypted_(encrypted), hooks_(std::move(hooks)) {}

  // Reason of libzmq for the end of a connection.
  enum class End {
    unknown,  // after the handshake, or a frame that violates ZMTP or its size limit
    protocol_error,
    key_rejected,
    peer_closed,
  };

  // A connection exists at `fd`. A connection that this bus started counts as authenticated.
  void opened(int fd, bool accepted, Time now);
  // Some accepted connection has completed its handshake.
  void handshake_succeeded() { ++handshakes_; }
  // libzmq has closed `fd`. Reports a violation by a peer that has not proven its key. Rejected
  // keys are counted by the AllowTable.
  void ended(int fd, End end);
  // The bus read a message that authenticates the connection.
  void proven(int fd);
  // Reads the kernel's counters and closes connections above their limits. `all_read`: since the
  // last check, the bus has read all messages that libzmq held. `handshake_proves`: a completed
  // CURVE handshake authenticates a connection, because the bus admits only known keys.
  void check(bool all_read, bool handshake_proves, Time now);
  // Shuts down the connection at `fd`.
  void close(int fd, const std::string& why);

  // True if no message has authenticated some connection yet: check() is due soon.
  bool has_silent() const { return silent_ > 0; }

 private:
  struct Connection {
    std::string peer;     // address and port
    std::string source;   // the address alone
    bool proven = false;  // by a message or a handshake
    bool silent = true;   // no message has authenticated it
    int checks_over = 0;  // consecutive checks that found it above a limit
    std::uint64_t opened_as = 0;
    Time opened_at;
    Fd copy{};                          // duplicate descriptor while unproven: shows the end
    std::uint64_t received_before = 0;  // when the bus had read all messages
    std::uint64_t read_before = 0;
  };
  using Connections = std::map<int, Connection>;
  using ByAge = std::map<std::uint64_t, int>;  // descriptors by `opened_as`

  void prove(Connection& connection);
  void erase(Connections::iterator at);
  void erase(int fd);
  void make_space(const std::string& source);
  // Whether one more connection fits, if need be in place of the oldest unproven one.
  bool fits_in_total();
  // Why the connection must be closed; nothing if it is within its limits.
  std::optional<std::string> beyond_limit(int fd, Connection& connection, bool all_read,
                                          bool handshake_proves, Time now);
  std::optional<std::string> beyond_bytes(int fd, Connection& connection, std::uint64_t received,
                                          bool all_read);
  std::optional<std::string> beyond_handshake(int fd, std::uint64_t received) const;

  void report_violation(const std::string& source, bool in_handshake, const std::string& received);

  const ConnectionLimits limits_;
  const bool encrypted_;
  const Hooks hooks_;
  Connections connections_;
  ByAge unproven_;
  std::unordered_map<std::string, ByAge> unproven_of_source_;
  // Accepted connections that libzmq closed before opened(), with the value of `handshakes_` then.
  std::unordered_map<int, std::uint64_t> closed_early_;
  std::uint64_t handshakes_ = 0;
  std::size_t silent_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace mobula::internal
