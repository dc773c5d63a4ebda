// What stands at the front of every connection: protocol version, who speaks, and the frame in
// which sequenced messages travel. Plain structs with field lists (append only).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "base/copy_on_write.h"
#include "base/fields.h"
#include "base/id.h"
#include "model/principal.h"
#include "protocol/version.h"

namespace mobula::internal {

// Whether a message is kept once for all conversations and frames that it is in, which then share it.
template <class Message>
inline constexpr bool is_shared_message = false;
template <class Message>
using Kept = std::conditional_t<is_shared_message<Message>, CopyOnWrite<Message>, Message>;

// One step of a sequenced conversation. `sequence` 0 carries no message, only the acknowledgement.
template <class Message>
struct Frame {
  std::uint64_t sequence = 0;      // of `message`, from 1
  std::uint64_t acknowledged = 0;  // all of the peer's messages up to this one were taken
  std::optional<Kept<Message>> message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("sequence", &Frame::sequence), field("acknowledged", &Frame::acknowledged),
                 field("message", &Frame::message));
  }
  friend bool operator==(const Frame&, const Frame&) = default;
};

// First message on a connection between peers that are not head and agent: at most 1 KiB, within 1
// s.
struct PeerHello {
  std::uint32_t version = own_protocol.newest;
  ProcessId process;   // who speaks
  std::string ticket;  // encoded SignedTicket
  std::uint32_t oldest = own_protocol.oldest;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("version", &PeerHello::version), field("process", &PeerHello::process),
                 field("ticket", &PeerHello::ticket), field("oldest", &PeerHello::oldest));
  }
  friend bool operator==(const PeerHello&, const PeerHello&) = default;
};

// The reply of an executor that rejects the PeerHello of a caller. The caller may connect again, with a
// later ticket. Releases that do not know it drop it as an unreadable frame.
struct CallerRejected {
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("why", &CallerRejected::why));
  }
  friend bool operator==(const CallerRejected&, const CallerRejected&) = default;
};

}  // namespace mobula::internal
