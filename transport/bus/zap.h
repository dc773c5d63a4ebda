// Authentication of bus connections: the table of admitted CURVE keys, and the server that libzmq
// queries for each connection before its first message (ZAP, https://rfc.zeromq.org/spec/27).
// Without a server, CURVE admits every client that knows the public key, so a bus with keys always
// has one.
// Thread: see each class. Not: the rights of a user id.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/bus/curve.h"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace mobula::internal {

// Treatment of keys that are not in the table.
enum class UnknownKeys {
  refuse,
  // Admitted with the user id `unproven_user`. The receiver authenticates the first message, and
  // compares the public key in it with the one in PeerOrigin.
  unproven,
};
inline constexpr std::string_view unproven_user = "unproven";

// Thread: any. May change while a bus runs; existing connections remain.
class AllowTable {
 public:
  struct Counters {
    std::uint64_t admitted = 0;
    std::uint64_t unproven = 0;
    std::uint64_t refused = 0;
    std::string last_refused;  // key and address of the last rejected connection
  };

  explicit AllowTable(UnknownKeys unknown = UnknownKeys::refuse) : unknown_(unknown) {}

  // Admits `public_key` as `user_id` (not empty, no NUL, at most 255 bytes), or replaces its entry.
  // Errors: invalid_argument for an invalid key or user id.
  Result<void> allow(std::string_view public_key, std::string_view user_id);
  // Returns true if the entry existed.
  bool remove(std::string_view public_key);
  UnknownKeys unknown() const { return unknown_; }
  Counters counters() const;
  std::uint64_t refused() const;  // as in counters(), without its text

  // Returns the user id for a connection with `public_key` from `address`, or an empty string to
  // reject it. Counts.
  std::string judge(std::string_view public_key, std::string_view address);

 private:
  const UnknownKeys unknown_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::string> user_of_key_ MOBULA_GUARDED_BY(mutex_);
  Counters counters_ MOBULA_GUARDED_BY(mutex_);
};

// ZAP server of one ZeroMQ context. Its own thread handles handshakes while the loop of the process
// is busy. It is created before the other sockets of the context and destroyed after them. libzmq
// queries it for each CURVE connection that they accept, and for no other connection unless one of
// them sets a domain.
class ZapServer {
 public:
  // Message property with the public key of the sender.
  static constexpr const char* public_key_property = "X-Public-Key";

  // `context` is a ZeroMQ context without another ZAP server. `table` outlives the server.
  static Result<std::unique_ptr<ZapServer>> start(zmq::context_t& context, AllowTable& table);
  ~ZapServer();
  ZapServer(const ZapServer&) = delete;
  ZapServer& operator=(const ZapServer&) = delete;

 private:
  explicit ZapServer(AllowTable& table) : table_(table) {}
  void serve(zmq::socket_t& socket);
  void answer(zmq::socket_t& socket);

  AllowTable& table_;
  Fd stop_;
  std::thread thread_;
};

// Tests the authentication of the bus at `address` with real connections. A new key must get no
// reply within `bound`, and no handshake if unknown keys are rejected. Then the key is admitted
// briefly and must complete the handshake within `bound`. Blocks up to three times `bound`, so it
// is meant for startup, on any thread except the loop of the bus. Errors: permission_denied if the
// bus is open, unavailable if the admitted key cannot connect.
Result<void> self_test(AllowTable& table, const std::string& address, const std::string& server_key,
                       Duration bound = 2s);

}  // namespace mobula::internal
