// The start of every connection (protocol version, identity) and the frame of sequenced messages.
// Thread: owner (plain values). Field lists are append-only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "base/containers/copy_on_write.h"
#include "base/fields.h"
#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "protocol/version.h"

namespace mobula::internal {

// True if all conversations and frames that contain a message share one copy of it.
template <class Message>
inline constexpr bool is_shared_message = false;
template <class Message>
using QueuedMessage = std::conditional_t<is_shared_message<Message>, CopyOnWrite<Message>, Message>;

// One step of a sequenced conversation. `sequence` 0 carries no message, only the acknowledgement.
template <class Message>
struct Frame {
  std::uint64_t sequence = 0;      // number of `message`, from 1
  std::uint64_t acknowledged = 0;  // all messages of the peer up to this number were received
  std::optional<QueuedMessage<Message>> message;
  MOBULA_FIELDS(sequence, acknowledged, message);
  friend bool operator==(const Frame&, const Frame&) = default;
};

// First message on a connection between peers other than head and agent: at most 1 KiB, within 1 s.
struct PeerHello {
  std::uint32_t version = own_protocol.newest;
  ProcessId process;   // process of the sender
  std::string ticket;  // encoded SignedTicket
  std::uint32_t oldest = own_protocol.oldest;
  MOBULA_FIELDS(version, process, ticket, oldest);
  friend bool operator==(const PeerHello&, const PeerHello&) = default;
};

// The reply of an executor that rejects the PeerHello of a caller. The caller may connect again,
// with a later ticket. Releases that do not know it drop it as an unreadable frame.
struct CallerRejected {
  std::string why;
  MOBULA_FIELDS(why);
  friend bool operator==(const CallerRejected&, const CallerRejected&) = default;
};

}  // namespace mobula::internal
