// Who may speak to a bus: the table of admitted CURVE keys, and the server that libzmq asks about
// every connection before its first message (ZAP, https://rfc.zeromq.org/spec/27). Without a
// running server CURVE admits anyone who knows the public key, so a bus with keys always has one.
// It admits keys; what a user id may do is decided elsewhere.
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
#include "transport/curve.h"

namespace mobula::internal {

// What happens to keys that are not in the table.
enum class UnknownKeys {
  refuse,
  // Admitted under the user id `unproven_user`: the receiver judges its first message, and compares
  // the public key in it with the one that PeerOrigin states.
  unproven,
};
inline constexpr std::string_view unproven_user = "unproven";

// Any thread; may change while a bus runs. Connections that were admitted stay.
class AllowTable {
 public:
  struct Counters {
    std::uint64_t admitted = 0;
    std::uint64_t unproven = 0;
    std::uint64_t refused = 0;
    std::string last_refused;  // the key and address refused last
  };

  explicit AllowTable(UnknownKeys unknown = UnknownKeys::refuse) : unknown_(unknown) {}

  // Admits `public_key` as `user_id` (not empty, no NUL, at most 255 bytes); replaces an entry.
  // invalid_argument for what is no key or user id.
  Result<void> allow(std::string_view public_key, std::string_view user_id);
  // Returns whether there was such an entry.
  bool remove(std::string_view public_key);
  void set_unknown(UnknownKeys unknown);
  UnknownKeys unknown() const;
  Counters counters() const;
  std::uint64_t refused() const;  // of counters(), without its text

  // The user id for a connection with `public_key` from `address`, empty if refused. Counts.
  std::string judge(std::string_view public_key, std::string_view address);

 private:
  mutable Mutex mutex_;
  UnknownKeys unknown_ MOBULA_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::string> user_of_key_ MOBULA_GUARDED_BY(mutex_);
  Counters counters_ MOBULA_GUARDED_BY(mutex_);
};

// Answers for one ZeroMQ context on a thread of its own, so that handshakes go on while the loop of
// the process works. Made before the context's other sockets, destroyed after them. It is asked about
// every CURVE connection that they accept, and about no other as long as none of them sets a domain.
class ZapServer {
 public:
  // The property of a message that holds the sender's public key.
  static constexpr const char* public_key_property = "X-Public-Key";

  // `context` is a ZeroMQ context without another ZAP server; the table outlives the server.
  static Result<std::unique_ptr<ZapServer>> start(void* context, AllowTable& table);
  ~ZapServer();
  ZapServer(const ZapServer&) = delete;
  ZapServer& operator=(const ZapServer&) = delete;

 private:
  explicit ZapServer(AllowTable& table) : table_(table) {}
  void serve(void* socket);
  void answer(void* socket);

  AllowTable& table_;
  Fd stop_;
  std::thread thread_;
};

// Proves with real connections that the bus at `address` with `server_key` is closed: a key made
// for the test gets no reply to a message within `bound`, and no handshake where unknown keys are
// refused; the same key, admitted for a moment, completes the handshake within `bound`. Blocks for
// up to three times `bound`: for a process's start, on any thread but the bus's loop.
// permission_denied when the bus is open, unavailable when the admitted key cannot connect.
Result<void> self_test(AllowTable& table, const std::string& address, const std::string& server_key,
                       Duration bound = 2s);

}  // namespace mobula::internal
